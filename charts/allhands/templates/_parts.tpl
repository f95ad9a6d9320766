{{/* What every object carries. The version tells a leader of the next release from one of this. */}}
{{- define "allhands.labels" -}}
app.kubernetes.io/name: allhands
app.kubernetes.io/part-of: allhands
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: allhands
{{- end }}

{{/* What a Deployment selects by; it cannot change afterwards, so no version is in it. */}}
{{- define "allhands.selector" -}}
app.kubernetes.io/name: allhands
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- define "allhands.image" -}}
{{- with .Values.image -}}
{{- $tag := .tag | default (ternary "" $.Chart.AppVersion (ne .digest "")) -}}
{{ .repository }}{{ with $tag }}:{{ . }}{{ end }}{{ with .digest }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}

{{/* Service account, rights in the cluster and at home. Takes a list: the root, and the part's name. */}}
{{- define "allhands.rights" -}}
{{- $ := index . 0 -}}
{{- $part := index . 1 -}}
{{- $name := printf "allhands-%s" $part -}}
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ $.Values.namespace }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
automountServiceAccountToken: false
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: {{ $name }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
rules:
{{ $.Files.Get (printf "generated/%s-everywhere.yaml" $part) }}
{{- if and (eq $part "controllers") (has "volcano" $.Values.schedulerNames) }}
{{ $.Files.Get "generated/controllers-for-volcano.yaml" }}
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ $name }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $.Values.namespace }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: {{ $name }}
  namespace: {{ $.Values.namespace }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
rules:
{{ $.Files.Get (printf "generated/%s-at-home.yaml" $part) }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ $name }}
  namespace: {{ $.Values.namespace }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ $name }}
subjects:
  - kind: ServiceAccount
    name: {{ $name }}
    namespace: {{ $.Values.namespace }}
{{- end }}

{{/* A Deployment and its disruption budget. Takes a list: the root, and the part's name. */}}
{{- define "allhands.workload" -}}
{{- $ := index . 0 -}}
{{- $part := index . 1 -}}
{{- $name := printf "allhands-%s" $part -}}
{{- $hasPolicy := and $.Values.policy (eq $part "scheduler") -}}
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ $.Values.namespace }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
spec:
  replicas: {{ $.Values.replicas }}
  selector:
    matchLabels:
      {{- include "allhands.selector" $part | nindent 6 }}
  strategy:
    type: RollingUpdate
    rollingUpdate:
      maxSurge: 1
      maxUnavailable: 0
  template:
    metadata:
      labels:
        app.kubernetes.io/component: {{ $part }}
        {{- include "allhands.labels" $ | nindent 8 }}
      {{- if or $hasPolicy $.Values.podAnnotations }}
      annotations:
        {{- if $hasPolicy }}
        allhands.dev/policy-digest: {{ $.Values.policy | sha256sum }}
        {{- end }}
        {{- with $.Values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      automountServiceAccountToken: true
      {{- with $.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- range . }}
        - name: {{ . }}
        {{- end }}
      {{- end }}
      {{- with $.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      securityContext:
        runAsNonRoot: true
        runAsUser: 65532
        runAsGroup: 65532
        seccompProfile:
          type: RuntimeDefault
      topologySpreadConstraints:
        {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "allhands.selector" $part | nindent 14 }}
        {{- end }}
      {{- with $.Values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $.Values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ $part }}
          image: {{ include "allhands.image" $ }}
          imagePullPolicy: {{ $.Values.image.pullPolicy }}
          args:
            - {{ $part }}
            {{- range $.Values.schedulerNames }}
            - --scheduler-name={{ . }}
            {{- end }}
            {{- if $hasPolicy }}
            - --policy=/etc/allhands/policy/policy.yaml
            {{- end }}
            {{- if eq $part "webhooks" }}
            - --address=0.0.0.0:8443
            {{- else }}
            - --leader-elect
            {{- end }}
            - --lease-namespace={{ $.Values.namespace }}
            - --metrics-address=0.0.0.0:8080
            {{- if $.Values.metricsSecret }}
            - --metrics-token-file=/etc/allhands/metrics/token
            {{- end }}
            - --log-level=info
            - --log-format=json
          ports:
            - name: metrics
              containerPort: 8080
              protocol: TCP
            {{- if eq $part "webhooks" }}
            - name: webhooks
              containerPort: 8443
              protocol: TCP
            {{- end }}
          livenessProbe:
            httpGet:
              path: /healthz
              port: metrics
            initialDelaySeconds: 15
            periodSeconds: 20
            timeoutSeconds: 5
          readinessProbe:
            httpGet:
              path: /readyz
              port: metrics
            periodSeconds: 5
            timeoutSeconds: 5
          resources:
            {{- toYaml (index $.Values $part).resources | nindent 12 }}
          securityContext:
            allowPrivilegeEscalation: false
            readOnlyRootFilesystem: true
            capabilities:
              drop: [ALL]
          {{- if or $hasPolicy $.Values.metricsSecret }}
          volumeMounts:
            {{- if $hasPolicy }}
            - name: policy
              mountPath: /etc/allhands/policy
              readOnly: true
            {{- end }}
            {{- if $.Values.metricsSecret }}
            - name: metrics
              mountPath: /etc/allhands/metrics
              readOnly: true
            {{- end }}
          {{- end }}
      {{- if or $hasPolicy $.Values.metricsSecret }}
      volumes:
        {{- if $hasPolicy }}
        - name: policy
          configMap:
            name: allhands-policy
        {{- end }}
        {{- with $.Values.metricsSecret }}
        - name: metrics
          secret:
            secretName: {{ . }}
        {{- end }}
      {{- end }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ $.Values.namespace }}
  labels:
    app.kubernetes.io/component: {{ $part }}
    {{- include "allhands.labels" $ | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "allhands.selector" $part | nindent 6 }}
{{- end }}
