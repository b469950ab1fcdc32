{{- /* The labels by which config/ selects: the same for every installation, so that kubectl and helm can follow each other. */ -}}
{{- define "hearth.selector" -}}
app.kubernetes.io/name: hearth
app.kubernetes.io/component: controller
{{- end -}}

{{- /* Labels that every object gets beside its own. */ -}}
{{- define "hearth.labels" -}}
{{ with .Values.labels }}{{ toYaml . }}
{{ end -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/instance: {{ .Release.Name }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* An object with our labels and annotations, those it has first. Takes root and object. */ -}}
{{- define "hearth.object" -}}
{{- $metadata := .object.metadata -}}
{{- $labels := merge (dict) ($metadata.labels | default dict) (include "hearth.labels" .root | fromYaml) -}}
{{- $_ := set $metadata "labels" $labels -}}
{{- $annotations := merge (dict) ($metadata.annotations | default dict) .root.Values.annotations -}}
{{- if $annotations }}{{ $_ := set $metadata "annotations" $annotations }}{{ end -}}
---
{{ toYaml .object }}
{{ end -}}

{{- /* The objects of files/, in the release's namespace instead of hearth-system. Takes root and glob; namespace is for those that name none, labels are more labels. */ -}}
{{- define "hearth.files" -}}
{{- range $path, $_ := .root.Files.Glob .glob -}}
{{- $text := $.root.Files.Get $path | replace "hearth-system" $.root.Release.Namespace | replace "name: monitoring}" (printf "name: %s}" $.root.Values.networkPolicy.monitoringNamespace) -}}
{{- $object := fromYaml $text -}}
{{- if $.namespace }}{{ $_ := set $object.metadata "namespace" $.namespace }}{{ end -}}
{{- if $.labels }}{{ $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) $.labels) }}{{ end -}}
{{ include "hearth.object" (dict "root" $.root "object" $object) }}
{{- end -}}
{{- end -}}

{{- define "hearth.image" -}}
{{ .Values.image.repository }}
{{- if or .Values.image.tag (not .Values.image.digest) }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ end }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end -}}

{{- /* What the restricted Pod security standard asks of a container. */ -}}
{{- define "hearth.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
