package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

const (
	root = "../.."
	// withoutCRDs saves most of the time that rendering takes.
	withoutCRDs = "crds: {install: false}\n"
)

// object is one of a manifest, as JSON has it.
type object = map[string]any

// helm runs the one of hack/helm, which HEARTH_HELM names.
func helm(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	program := os.Getenv("HEARTH_HELM")
	if program == "" {
		if os.Getenv("HEARTH_REQUIRE_REAL") != "" {
			require.Fail(t, "HEARTH_HELM is not set: expected what hack/helm/install.sh prints")
		}
		t.Skip("HEARTH_HELM is not set (hack/helm/install.sh prints its path)")
	}
	cmd := exec.CommandContext(t.Context(), program, args...) //nolint:gosec // the test's own arguments
	home := t.TempDir()
	cmd.Env = append(os.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home, "KUBECONFIG="+os.DevNull)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String() + stderr.String(), err
}

// rendered are the chart's objects with those values, by kind, namespace and name, without helm's hooks and labels.
func rendered(t *testing.T, values string) map[string]object {
	t.Helper()
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, []byte(values), 0o600))
	out, err := helm(t, "template", "hearth", chartDir(root), "--namespace", "hearth-system", "--values", file)
	require.NoError(t, err, out)
	found := parsed(t, out)
	for key, o := range found {
		metadata := o["metadata"].(object)
		annotations, _ := metadata["annotations"].(object)
		if _, hook := annotations["helm.sh/hook"]; hook {
			delete(found, key)
			continue
		}
		delete(annotations, "helm.sh/resource-policy")
		labels := metadata["labels"].(object)
		require.Equal(t, "Helm", labels["app.kubernetes.io/managed-by"], key)
		for _, label := range []string{"app.kubernetes.io/managed-by", "app.kubernetes.io/instance", "helm.sh/chart"} {
			delete(labels, label)
		}
		if len(labels) == 0 {
			delete(metadata, "labels")
		}
	}
	return found
}

func parsed(t *testing.T, text string) map[string]object {
	t.Helper()
	found := map[string]object{}
	for _, document := range documents(text) {
		var o object
		require.NoError(t, yaml.Unmarshal([]byte(document), &o), document)
		if o == nil {
			continue
		}
		metadata := o["metadata"].(object)
		namespace, _ := metadata["namespace"].(string)
		key := o["kind"].(string) + " " + namespace + "/" + metadata["name"].(string)
		require.NotContains(t, found, key, "each object once")
		found[key] = o
	}
	return found
}

// kustomized are the objects of a kustomization of config/, without the Namespace, which helm makes itself.
func kustomized(t *testing.T, dir string) map[string]object {
	t.Helper()
	objects, err := kustomize(dir)
	require.NoError(t, err)
	text, err := objects.AsYaml()
	require.NoError(t, err)
	found := parsed(t, string(text))
	delete(found, "Namespace /hearth-system")
	return found
}

// same compares object by object, so that a difference names its object.
func same(t *testing.T, want, got map[string]object) {
	t.Helper()
	for key, o := range want {
		if assert.Contains(t, got, key) {
			assert.Equal(t, o, got[key], key)
		}
	}
	for key := range got {
		assert.Contains(t, want, key)
	}
}

// overlay is a kustomization of ours over config/, in a directory of its own: kustomize wants relative paths.
func overlay(t *testing.T, content string) string {
	t.Helper()
	dir, err := os.MkdirTemp(filepath.Join(root, "hack", "install"), "overlay-") //nolint:usetesting // beside config/
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(content), 0o600))
	return dir
}

func TestTheChartWithItsDefaultsIsWhatConfigIs(t *testing.T) {
	want := kustomized(t, filepath.Join(root, "config"))
	require.Contains(t, toText(t, want["Deployment hearth-system/hearth-controller"]), devImage, "in a clone both name the same image")
	same(t, want, rendered(t, ""))
}

func TestTheChartForAFewNamespacesIsWhatConfigNamespacedIs(t *testing.T) {
	want := kustomized(t, overlay(t, `
resources: [../../../config/namespaced]
components: [../../../config/ad-hoc]
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: replace, path: /spec/template/spec/containers/0/args/1, value: "--namespaces=team-a,team-b"}
`))
	for _, kind := range []string{"agents", "agentruns"} {
		delete(want, "CustomResourceDefinition /"+kind+".hearth.dev")
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		for _, dir := range []string{"namespaced/grant", "networkpolicy/agents"} {
			for key, o := range kustomized(t, filepath.Join(root, "config", dir)) {
				o["metadata"].(object)["namespace"] = namespace
				want[strings.Replace(key, " /", " "+namespace+"/", 1)] = o
			}
		}
	}
	for key, o := range kustomized(t, filepath.Join(root, "config", "networkpolicy", "system")) {
		want[key] = o
	}
	same(t, want, rendered(t, withoutCRDs+"namespaces: [team-a, team-b]\nadHoc: true\nnetworkPolicy: {system: true, agents: true}"))
}

func TestTheChartWithPageAndMonitoringIsWhatTheComponentsMake(t *testing.T) {
	want := kustomized(t, overlay(t, "resources: [../../../config, ../../../config/prometheus]\ncomponents: [../../../config/page]\n"))
	for _, kind := range []string{"agents", "agentruns"} {
		delete(want, "CustomResourceDefinition /"+kind+".hearth.dev")
	}
	require.Contains(t, toText(t, want["Deployment hearth-system/hearth-controller"]), "--page-bind-address=127.0.0.1:8090")
	require.Contains(t, want, "PrometheusRule hearth-system/hearth")
	same(t, want, rendered(t, withoutCRDs+"page: {enabled: true}\nmonitoring: {enabled: true}"))
}

// Each shard has a Deployment that differs from the first in its name, one label and its flag, and the first one has whom no other has.
func TestTheChartForShardsIsWhatTheComponentMakesAndADeploymentEach(t *testing.T) {
	want := kustomized(t, overlay(t, `
resources: [../../../config]
components: [../../../config/shards]
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--agent-selector=hearth.dev/shard notin (blue,green)"}
`))
	for _, kind := range []string{"agents", "agentruns"} {
		delete(want, "CustomResourceDefinition /"+kind+".hearth.dev")
	}
	for _, shard := range []string{"blue", "green"} {
		for key, o := range kustomized(t, overlay(t, fmt.Sprintf(`
resources: [../../../config/manager]
nameSuffix: -%[1]s
labels: [{pairs: {hearth.dev/shard: %[1]s}}]
patches:
- target: {kind: Deployment}
  patch: |-
    - {op: add, path: /spec/selector/matchLabels/hearth.dev~1shard, value: %[1]s}
    - {op: add, path: /spec/template/metadata/labels/hearth.dev~1shard, value: %[1]s}
    - {op: add, path: /spec/template/spec/containers/0/args/-, value: "--agent-selector=hearth.dev/shard=%[1]s"}
`, shard))) {
			if strings.HasPrefix(key, "Deployment") {
				want[key] = o
			}
		}
	}
	require.Contains(t, want, "Deployment hearth-system/hearth-controller-blue")
	require.Contains(t, want, "Role hearth-system/hearth-controller-shards")
	same(t, want, rendered(t, withoutCRDs+"shards: [blue, green]"))
	numbered := rendered(t, withoutCRDs+`shards: ["1"]`)["Deployment hearth-system/hearth-controller-1"]["spec"].(object)
	assert.Equal(t, "1", numbered["selector"].(object)["matchLabels"].(object)["hearth.dev/shard"], "a label's value is a text, whatever it looks like")
	assert.Equal(t, rendered(t, withoutCRDs), rendered(t, withoutCRDs+"shards: null"), "none")
	for _, shards := range []string{"[Blue]", "[a, a]", "[a.b]", "[" + strings.Repeat("x", 41) + "]"} {
		_, err := helm(t, "template", "hearth", filepath.Join(root, "charts", "hearth"), "--set-json", "shards="+strings.NewReplacer("[", `["`, "]", `"]`, ", ", `", "`).Replace(shards))
		require.Error(t, err, shards)
	}
}

func toText(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	require.NoError(t, err)
	return string(text)
}

func TestEveryValueHasItsEffect(t *testing.T) {
	digest := "sha256:" + strings.Repeat("a", 64)
	for values, image := range map[string]string{
		`image: {repository: "registry:5000/x", tag: v1}`:   "image: registry:5000/x:v1\n",
		`image: {digest: "` + digest + `"}`:                 "image: localhost/hearth-controller@" + digest + "\n",
		`image: {tag: v1, digest: "` + digest + `"}`:        "image: localhost/hearth-controller:v1@" + digest + "\n",
		"podDisruptionBudget: false\nglobal: {some: thing}": "image: " + devImage + "\n",
	} {
		objects := rendered(t, withoutCRDs+values)
		assert.Contains(t, toText(t, objects), image)
		const budget = "PodDisruptionBudget hearth-system/hearth-controller"
		assert.Equal(t, !strings.Contains(values, "podDisruptionBudget: false"), objects[budget] != nil)
	}
	all := rendered(t, withoutCRDs+`
image: {pullPolicy: Always, pullSecrets: [mine]}
replicas: 3
logLevel: debug
env: [{name: OTEL_EXPORTER_OTLP_ENDPOINT, value: "http://c:4318"}]
networkPolicy: {system: true, monitoringNamespace: watchers}
monitoring: {enabled: true, labels: {release: theirs}}
resources: {limits: {memory: 1Gi}}
priorityClassName: high
nodeSelector: {disk: ssd}
tolerations: [{key: arch, operator: Exists}]
affinity: {nodeAffinity: {}}
labels: {team: x}
annotations: {owner: them}
podLabels: {pod: labelled}
podAnnotations: {pod: annotated}
`)
	text := toText(t, all)
	for _, want := range []string{
		"imagePullPolicy: Always", "imagePullSecrets:\n        - name: mine", "replicas: 3", "--log-level=debug", "name: OTEL_EXPORTER_OTLP_ENDPOINT",
		"name: POD_NAMESPACE", "kubernetes.io/metadata.name: watchers", "memory: 1Gi", "priorityClassName: high", "disk: ssd", "key: arch", "nodeAffinity: {}",
		"pod: labelled", "pod: annotated",
	} {
		assert.Contains(t, text, want)
	}
	for _, key := range []string{"PrometheusRule hearth-system/hearth", "PodMonitor hearth-system/hearth-controller", "PodMonitor hearth-system/hearth-harness"} {
		assert.Equal(t, "theirs", all[key]["metadata"].(object)["labels"].(object)["release"], key)
	}
	for _, env := range []string{"[]", `[{name: GOMEMLIMIT, value: "1GiB"}]`} { // twice the same name would be refused by a server-side apply
		assert.Equal(t, 1, strings.Count(toText(t, rendered(t, withoutCRDs+"env: "+env)), "name: GOMEMLIMIT"), env)
	}
	for key, o := range all {
		metadata := o["metadata"].(object)
		assert.Equal(t, "x", metadata["labels"].(object)["team"], key)
		assert.Equal(t, "them", metadata["annotations"].(object)["owner"], key)
		assert.NotEqual(t, "CustomResourceDefinition", o["kind"])
	}
}

// What an installation is called, and where it is, is the release's.
func TestTheChartInAnotherNamespaceNamesThatOneEverywhere(t *testing.T) {
	out, err := helm(t, "template", "mine", chartDir(root), "--namespace", "elsewhere")
	require.NoError(t, err, out)
	assert.NotContains(t, out, "hearth-system")
	assert.Contains(t, out, "system:serviceaccount:elsewhere:hearth-controller")
}

func TestRecordsAreKeptUnlessAskedOtherwise(t *testing.T) {
	const keep = "helm.sh/resource-policy: keep"
	out, err := helm(t, "template", "hearth", chartDir(root))
	require.NoError(t, err)
	assert.Equal(t, 2, strings.Count(out, keep), "on both CRDs")
	out, err = helm(t, "template", "hearth", chartDir(root), "--set", "crds.keep=false")
	require.NoError(t, err)
	assert.NotContains(t, out, keep)
}

func TestABadValueIsRefusedByItsName(t *testing.T) {
	for value, wanted := range map[string]string{
		"replica=3":                   "additional properties 'replica' not allowed",
		"replicas=0":                  "at '/replicas': ",
		"image.repo=x":                "at '/image': additional properties 'repo' not allowed",
		"image.digest=sha256:1":       "at '/image/digest': ",
		"image.repository=x:v1":       "at '/image/repository': ",
		"logLevel=loud":               "at '/logLevel': ",
		"namespaces={Team_A}":         "at '/namespaces/0': ",
		"crds.keep=perhaps":           "at '/crds/keep': ",
		"env[0].value=x":              "at '/env/0': missing property 'name'",
		"env[0].name=POD_NAMESPACE":   "env: POD_NAMESPACE: expected each name once; POD_NAMESPACE is there already",
		"env[0].name=A,env[1].name=A": "env: A: expected each name once",
		"networkPolicy.agents=true":   "networkPolicy.agents: expected `namespaces`",
		"page.on=true":                "at '/page': additional properties 'on' not allowed",
		"monitoring.enabled=perhaps":  "at '/monitoring/enabled': ",
		"podLabels.app=1":             "at '/podLabels/app': ",
		"affinity.nodeAffinities.a=b": "at '/affinity': additional properties 'nodeAffinities' not allowed",
		"image=null":                  "missing property 'image'",
		"priorityClassName=x: y":      "at '/priorityClassName': ",
	} {
		t.Run(value, func(t *testing.T) {
			out, err := helm(t, "template", "hearth", chartDir(root), "--set", value)
			require.Error(t, err)
			assert.Contains(t, out, wanted)
		})
	}
}

func TestHelmFindsNothingToSay(t *testing.T) {
	out, err := helm(t, "lint", "--strict", chartDir(root))
	assert.NoError(t, err, out)
}

// values.yaml is the documentation: it has every value that the schema knows, with a word on each that is not plain.
func TestEveryValueIsInTheFileThatDocumentsThem(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(chartDir(root), "values.yaml"))
	require.NoError(t, err)
	var values object
	require.NoError(t, yaml.Unmarshal(content, &values))
	schema, err := os.ReadFile(filepath.Join(chartDir(root), "values.schema.json"))
	require.NoError(t, err)
	var known object
	require.NoError(t, yaml.Unmarshal(schema, &known))
	for name := range known["properties"].(object) {
		if name != "global" { // helm's own
			assert.Contains(t, values, name)
		}
	}
}
