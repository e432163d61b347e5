{{/* The name of a cluster's objects: of release and cluster. */}}
{{- define "indoubt.name" -}}
{{- printf "%s-%s" .Release.Name .cluster.name | trunc 52 | trimSuffix "-" -}}
{{- end }}

{{- define "indoubt.selector" -}}
app.kubernetes.io/name: indoubt
app.kubernetes.io/instance: {{ .Release.Name }}
indoubt/cluster: {{ .cluster.name }}
{{- end }}

{{- define "indoubt.labels" -}}
{{ include "indoubt.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* A table of the settings file. Values are JSON, which TOML reads: toToml would make 7 to 7.0. */}}
{{- define "indoubt.table" -}}
[{{ .name }}]
{{- range $key, $value := .keys }}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .keys }}
{{- if kindIs "map" $value }}

[{{ $.name }}.{{ $key }}]
{{- range $inner, $text := $value }}
{{ toJson $inner }} = {{ toJson $text }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "indoubt.container" -}}
image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end }}

{{- define "indoubt.mounts" -}}
- {name: data, mountPath: /var/lib/indoubt}
- {name: settings, mountPath: /etc/indoubt, readOnly: true}
- {name: tmp, mountPath: /tmp}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* What no schema of values can refuse. */}}
{{- define "indoubt.check" -}}
{{- $open := eq "anyone" (dig "settings" "metrics_access" "token" .cluster) -}}
{{- if and .Values.serviceMonitor.enabled (not .Values.serviceMonitor.tokenSecret.name) (not $open) -}}
{{- fail (printf "cluster %s: give serviceMonitor.tokenSecret.name, or settings.metrics_access: anyone" .cluster.name) -}}
{{- end -}}
{{- if and .Values.app.settings.oidc_issuer (not (and .cluster.host .Values.ingress.tlsSecret)) -}}
{{- fail (printf "cluster %s: a sign-in by OpenID Connect needs its host and ingress.tlsSecret" .cluster.name) -}}
{{- end -}}
{{- if and (or .Values.app.settings.oidc_issuer .Values.app.settings.trusted_proxy) (not .Values.app.existingSecret) -}}
{{- fail "app.existingSecret is missing: a sign-in takes INDOUBT_TOKEN, a token for persons" -}}
{{- end -}}
{{- end }}
