{{/* The overlay of manifests/overlays that the values ask for. */}}
{{- define "tortie.overlay" -}}
{{- if ne .Values.mode "blocks" }}{{ .Values.mode }}{{ else if ne .Values.pools.ipv6 "none" }}dual-stack{{ else }}alone{{ end }}
{{- end }}

{{- define "tortie.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}

{{/* Where agent or controller ("program") serves its figures to a Prometheus elsewhere; empty: nowhere. */}}
{{- define "tortie.metricsAddress" -}}
{{- $given := index .root.Values.metrics (printf "%sAddress" .program) }}
{{- if $given }}{{ $given }}{{ else if .root.Values.monitoring.enabled }}0.0.0.0:{{ ternary 9881 9882 (eq .program "agent") }}{{ end }}
{{- end }}
