// Command gotypes prints, for every type reachable from the built-in kinds we serve, how Go's JSON encoder treats each
// field: always written, written unless nil, or written unless zero, the Go type that decoding errors name, and the
// field's number in protobuf messages. OpenAPI leaves all three out, and a server that is to answer like kube-apiserver
// needs them. Run `make gotypes`.
package main

import (
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	nodev1 "k8s.io/api/node/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

var marshaler = reflect.TypeOf((*interface{ MarshalJSON() ([]byte, error) })(nil)).Elem()

type walker struct{ seen map[reflect.Type][]string }

func definition(t reflect.Type) string {
	path := strings.Split(t.PkgPath(), "/")
	host := strings.Split(path[0], ".")
	for i, j := 0, len(host)-1; i < j; i, j = i+1, j-1 {
		host[i], host[j] = host[j], host[i]
	}
	return strings.Join(append(host, append(path[1:], t.Name())...), ".")
}

// mark says how the encoder treats a field: "!" always, "n" always and null when nil, "?" unless nil, "0" unless zero.
func mark(field reflect.StructField, options []string) string {
	t := field.Type
	for _, option := range options {
		if option == "omitzero" {
			return "0"
		}
	}
	for _, option := range options {
		if option != "omitempty" {
			continue
		}
		switch t.Kind() {
		case reflect.Struct:
			return "!"
		case reflect.Pointer, reflect.Interface:
			return "?"
		default:
			return "0"
		}
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Slice, reflect.Map:
		return "n"
	default:
		return "!"
	}
}

func (w *walker) walk(t reflect.Type) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t.PkgPath() == "" {
		return
	}
	if _, done := w.seen[t]; done {
		return
	}
	if t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler) {
		return // times, quantities and the like have their own form
	}
	w.seen[t] = nil
	w.seen[t] = w.fields(t, "")
}

const outside = "-"

// number is where a field stands in its protobuf message. A struct that JSON inlines is a message of its own in
// protobuf, so that its fields have a path: "2.1" is field 1 of the message in field 2. Types that are not in the
// message at all (TypeMeta, which the envelope carries) have the number "-".
func number(field reflect.StructField, prefix string) string {
	parts := strings.Split(field.Tag.Get("protobuf"), ",")
	if prefix == outside || len(parts) < 2 {
		return outside
	}
	return prefix + parts[1]
}

func (w *walker) fields(t reflect.Type, prefix string) []string {
	var lines []string
	for i := 0; i < t.NumField(); i++ {
		field := t.Field(i)
		tag, ok := field.Tag.Lookup("json")
		parts := strings.Split(tag, ",")
		if ok && parts[0] == "-" {
			continue
		}
		if field.Anonymous && parts[0] == "" {
			inner := number(field, prefix)
			if inner != outside {
				inner += "."
			}
			lines = append(lines, w.fields(field.Type, inner)...)
			continue
		}
		pointer := field.Type.Kind() == reflect.Pointer
		goType := field.Type.String()
		if pointer {
			goType = field.Type.Elem().String()
		}
		lines = append(lines, fmt.Sprintf("  %s %s %s %s", parts[0], mark(field, parts[1:]), goType, number(field, prefix)))
		w.walk(field.Type)
	}
	return lines
}

func main() {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		appsv1.AddToScheme, batchv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme,
		discoveryv1.AddToScheme, eventsv1.AddToScheme, networkingv1.AddToScheme, nodev1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme,
		authenticationv1.AddToScheme, authorizationv1.AddToScheme, autoscalingv1.AddToScheme,
		schedulingv1.AddToScheme, schedulingv1alpha2.AddToScheme, storagev1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	w := &walker{seen: map[reflect.Type][]string{}}
	for gvk, t := range scheme.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || strings.HasSuffix(gvk.Kind, "List") {
			continue
		}
		w.walk(t)
	}
	w.walk(reflect.TypeOf(metav1.ListMeta{}))
	blocks := make([]string, 0, len(w.seen))
	for t, lines := range w.seen {
		blocks = append(blocks, strings.Join(append([]string{definition(t)}, lines...), "\n"))
	}
	sort.Strings(blocks)
	fmt.Println("# How Go encodes each field of the built-in kinds (k8s.io/api v0.36.3), written by `make gotypes`. Do not edit.")
	fmt.Println("# name, mark, Go type, protobuf number (2.1: field 1 of the message in field 2; -: not in the message).")
	fmt.Println("# Marks: ! always written, n always and null when nil, ? unless nil, 0 unless zero or empty.")
	fmt.Println(strings.Join(blocks, "\n"))
}
