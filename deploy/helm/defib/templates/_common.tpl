{{- define "defib.labels" -}}
app.kubernetes.io/name: defib
{{- end }}

{{- /* Not those of the replicas: their Deployment, budget and network policy choose by them. */}}
{{- define "defib.agentLabels" -}}
app.kubernetes.io/name: defib-agent
{{- end }}

{{- define "defib.agentSecret" -}}
{{ .Values.agent.certificates.secret | default "defib-agent" }}
{{- end }}

{{- /* A device plugin brings the device along by itself. */}}
{{- define "defib.mountsWatchdog" -}}
{{ if and (ne .Values.agent.watchdog "software") (not .Values.agent.deviceResource) }}yes{{ end }}
{{- end }}

{{- define "defib.agentResources" -}}
{{- $resources := deepCopy .Values.agent.resources }}
{{- with .Values.agent.deviceResource }}
{{- $_ := set $resources "limits" (merge (dict . 1) ($resources.limits | default dict)) }}
{{- end }}
{{- toYaml $resources }}
{{- end }}

{{- define "defib.locks" -}}
{{ .Values.settings.lock_namespace | default "medik8s-leases" }}
{{- end }}

{{- define "defib.acts" -}}
{{ if eq .Values.mode "act" }}yes{{ end }}
{{- end }}

{{- define "defib.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "defib.subjects" -}}
subjects:
  - kind: ServiceAccount
    name: defib
    namespace: {{ .Release.Namespace }}
{{- end }}

{{- /* Gives a ClusterRole to Defib everywhere: (dict "root" $ "role" NAME). */}}
{{- define "defib.bind" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: {{ .role }}
  labels: { {{- include "defib.labels" .root -}} }
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: {{ .role }}
{{ include "defib.subjects" .root }}
{{- end }}

{{- /* Gives a Role to Defib in one namespace: (dict "root" $ "role" NAME "namespace" NAMESPACE). */}}
{{- define "defib.bindIn" -}}
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata:
  name: {{ .role }}
  namespace: {{ .namespace }}
  labels: { {{- include "defib.labels" .root -}} }
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: Role
  name: {{ .role }}
{{ include "defib.subjects" .root }}
{{- end }}

{{- /* A value of a setting as it stands in the environment. YAML takes on and off for true and false. */}}
{{- define "defib.setting" -}}
{{- if kindIs "bool" . }}{{ ternary "on" "off" . }}{{ else if kindIs "float64" . }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- end }}

{{- /* What the schema cannot say. */}}
{{- define "defib.validate" -}}
{{- with .Values }}
{{- if and .features.defaultCheck .features.checks (not .features.podFailover) (not .agent.enabled) }}
{{- fail "features.defaultCheck needs features.podFailover: the default check remediates by it. Set features.defaultCheck=false, or leave both on." }}
{{- end }}
{{- if .agent.enabled }}
{{- if eq .mode "watch" }}
{{- fail "agent.enabled needs mode=act: agents take nodes down, and with mode=watch nothing is changed." }}
{{- end }}
{{- if not .admissionPolicies }}
{{- fail "agent.enabled needs admissionPolicies=true: without them, whoever has the token of one agent could have any node taken down, and say who leads." }}
{{- end }}
{{- if eq (empty .agent.certificates.secret) (empty .agent.certificates.certManager.issuerRef) }}
{{- fail "agent.enabled needs certificates: name a Secret in agent.certificates.secret, or an issuer in agent.certificates.certManager.issuerRef, and not both." }}
{{- end }}
{{- if and .agent.deviceResource (eq .agent.watchdog "software") }}
{{- fail "agent.deviceResource is for a watchdog that is a device: leave it out with agent.watchdog=software." }}
{{- end }}
{{- end }}
{{- if and .serves (not .features.metal3) }}
{{- fail "serves needs features.metal3=true: without it Defib may not touch Machines and hosts." }}
{{- end }}
{{- if and .serves (not .features.powerCycle) }}
{{- fail "serves needs features.powerCycle=true: what is served is a power cycle." }}
{{- end }}
{{- if and (eq .election "off") (gt (int .replicas) 1) (eq .mode "act") }}
{{- fail "election=off is for one replica: with several, each would act by itself. Set replicas=1, or choose an election." }}
{{- end }}
{{- if and .notifications.secret .settings.notify_url_file }}
{{- fail "notifications.secret and settings.notify_url_file say the same: leave one of them out." }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What differs from the defaults of `defib run`, as variables. */}}
{{- define "defib.environment" -}}
{{- $said := dict }}
{{- with .Values }}
{{- if eq .mode "watch" }}{{ $_ := set $said "watch_only" "on" }}{{ end }}
{{- if not .features.checks }}{{ $_ := set $said "health_checks" "off" }}{{ end }}
{{- if not (and .features.checks .features.defaultCheck) }}{{ $_ := set $said "default_check" "off" }}
{{- else if .agent.enabled }}{{ $_ := set $said "default_check" "self-fence" }}{{ end }}
{{- if not .features.podFailover }}{{ $_ := set $said "pod_failover_policies" "off" }}{{ end }}
{{- $remedies := list }}
{{- if .features.podFailover }}{{ $remedies = append $remedies "pod-failover" }}{{ end }}
{{- if .features.powerCycle }}{{ $remedies = append $remedies "power-cycle" }}{{ end }}
{{- if .agent.enabled }}{{ $remedies = append $remedies "self-fence" }}{{ end }}
{{- if .features.drains }}{{ $remedies = append $remedies "drains" }}{{ end }}
{{- if .features.metal3 }}{{ $remedies = append $remedies "metal3" }}{{ end }}
{{- if .features.nodekeeper }}{{ $remedies = append $remedies "nodekeeper" }}{{ end }}
{{- if lt (len $remedies) 6 }}{{ $_ := set $said "remedies" (join "," $remedies | default "none") }}{{ end }}
{{- if .serves }}{{ $_ := set $said "serves" (join "," .serves) }}{{ end }}
{{- if ne .election "lease" }}{{ $_ := set $said "election" .election }}{{ end }}
{{- if ne .dashboard.mode "read" }}{{ $_ := set $said "dashboard" .dashboard.mode }}{{ end }}
{{- if .dashboard.service }}{{ $_ := set $said "dashboard_address" ":8080" }}{{ end }}
{{- if .notifications.secret }}{{ $_ := set $said "notify_url_file" "/etc/defib/notifications/url" }}{{ end }}
{{- if and .notifications.secret .notifications.templateKey }}{{ $_ := set $said "notify_template_file" "/etc/defib/notifications/template" }}{{ end }}
{{- range $name, $value := .settings }}{{ $_ := set $said $name (include "defib.setting" $value) }}{{ end }}
{{- end }}
{{- range $name, $value := $said }}
- {name: DEFIB_{{ upper $name }}, value: {{ quote $value }}}
{{- end }}
{{- end }}
