{{/* The overlay of manifests/overlays that the values ask for. */}}
{{- define "tortie.overlay" -}}
{{- if ne .Values.mode "blocks" }}{{ .Values.mode }}{{ else if ne .Values.pools.ipv6 "none" }}dual-stack{{ else }}alone{{ end }}
{{- end }}

{{- define "tortie.image" -}}
{{ .Values.image.repository }}{{ if .Values.image.digest }}@{{ .Values.image.digest }}{{ else }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- end }}
