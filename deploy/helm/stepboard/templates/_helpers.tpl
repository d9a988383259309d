{{- define "stepboard.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "stepboard.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- /* All pods but that of the migration, which listens nowhere. */}}
{{- define "stepboard.serving" -}}
{{ include "stepboard.selector" . }}
stepboard/serves: "true"
{{- end }}

{{- define "stepboard.labels" -}}
{{ include "stepboard.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end }}

{{- define "stepboard.image" -}}
{{ required "image.repository: name the image" .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "stepboard.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ .Values.serviceAccount.name | default (include "stepboard.name" .) }}
{{- else }}{{ .Values.serviceAccount.name | default "default" }}{{ end }}
{{- end }}

{{- define "stepboard.settings" -}}
{{- if and .Values.existingSecret .Values.settings }}{{ fail "existingSecret: has the settings; settings must be empty" }}{{ end -}}
{{- if not (or .Values.existingSecret .Values.settings .Values.data.enabled) }}{{ fail "settings: needed, or existingSecret, or data.enabled" }}{{ end -}}
{{- $mode := dig "ingest" "mode" "direct" .Values.settings }}
{{- if and (ne $mode "direct") (not .Values.data.enabled) (le (int .Values.roles.consumer.replicas) 0) }}{{ fail (printf "roles.consumer.replicas: must be 1 or more with ingest.mode %s, otherwise nothing applies uploads" $mode) }}{{ end -}}
stepboard.yaml: {{ toYaml .Values.settings | b64enc }}
{{- end }}

{{- define "stepboard.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "stepboard.security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- /* A pod that serves. Takes root, args, resources, role and mounts. */}}
{{- define "stepboard.pod" -}}
{{- $root := .root -}}
metadata:
  labels:
    {{- include "stepboard.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .role }}
    stepboard/serves: "true"
    {{- with $root.Values.podLabels }}{{ toYaml . | nindent 4 }}{{ end }}
  annotations:
    {{- /* Pods start anew when the settings change. */}}
    checksum/settings: {{ toYaml $root.Values.settings | sha256sum }}
    {{- with $root.Values.podAnnotations }}{{ toYaml . | nindent 4 }}{{ end }}
spec:
  serviceAccountName: {{ include "stepboard.serviceAccount" $root }}
  automountServiceAccountToken: false
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  securityContext: {{- include "stepboard.podSecurity" $root | nindent 4 }}
  terminationGracePeriodSeconds: 60
  containers:
    - name: stepboard
      image: {{ include "stepboard.image" $root | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ .args | toJson }}
      env:
        - {name: STEPBOARD_HTTP__ADDR, value: ":8080"}
        - {name: STEPBOARD_HTTP__METRICS_ADDR, value: ":9090"}
        {{- with $root.Values.env }}{{ toYaml . | nindent 8 }}{{ end }}
      ports:
        - {name: http, containerPort: 8080}
        - {name: metrics, containerPort: 9090} # probes, too: there they wait for no caller
      startupProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 2
        failureThreshold: 300
      livenessProbe:
        httpGet: {path: /healthz, port: metrics}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 3
      readinessProbe:
        httpGet: {path: /readyz, port: metrics}
        periodSeconds: 5
        timeoutSeconds: 5
        failureThreshold: 3
      resources: {{- toYaml .resources | nindent 8 }}
      securityContext: {{- include "stepboard.security" $root | nindent 8 }}
      volumeMounts:
        - {name: settings, mountPath: /etc/stepboard, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- with .mounts }}{{ toYaml . | nindent 8 }}{{ end }}
  volumes:
    - name: settings
      secret: {secretName: {{ $root.Values.existingSecret | default (include "stepboard.name" $root) }}}
    - {name: tmp, emptyDir: {}}
  {{- with $root.Values.nodeSelector }}
  nodeSelector: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations: {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- if $root.Values.affinity }}
  affinity: {{- toYaml $root.Values.affinity | nindent 4 }}
  {{- else }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "stepboard.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ .role }}
  {{- end }}
{{- end }}
