"""A StatefulSet: pods that keep their name, their place in an order, and their claims."""
