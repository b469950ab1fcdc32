package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"
)

// chartFilesHeader is above each object that the chart's templates read.
const chartFilesHeader = "# Made from config/ by `make generate`.\n"

// groups are the parts of the chart that are copied from a directory of config/, by their directory in charts/hearth/files.
var groups = map[string]string{
	"crd":                  "crd",
	"rbac":                 "rbac",
	"webhook":              "webhook",
	"ad-hoc":               "ad-hoc",
	"shards":               "shards",
	"grant":                "namespaced/grant",
	"networkpolicy-agents": "networkpolicy/agents",
	"networkpolicy-system": "networkpolicy/system",
	"monitoring":           "prometheus",
}

// namespacedRole takes the place of the ClusterRole in rbac where only a few namespaces are served.
const namespacedRole = "namespaced/clusterrole.yaml"

func chartDir(root string) string { return filepath.Join(root, "charts", "hearth") }

// writeChartFiles writes each object of config/ that the chart has, too, to a file of its own. The Namespace is left out: helm makes
// it. Deployment and budget depend on values: they are templates, which a test compares with config/.
func writeChartFiles(root, chart string) error {
	files := filepath.Join(chart, "files")
	if err := os.RemoveAll(files); err != nil {
		return err
	}
	for group, dir := range groups {
		dir = filepath.Join(root, "config", dir)
		resources, err := resources(dir)
		if err != nil {
			return err
		}
		for _, resource := range resources {
			if err := splitInto(filepath.Join(files, group), filepath.Join(dir, resource)); err != nil {
				return err
			}
		}
	}
	return splitInto(filepath.Join(files, "namespaced"), filepath.Join(root, "config", namespacedRole))
}

// resources are the files that a kustomization names.
func resources(dir string) ([]string, error) {
	file := filepath.Join(dir, "kustomization.yaml")
	content, err := os.ReadFile(file) //nolint:gosec // the project's own manifests
	if err != nil {
		return nil, err
	}
	var named struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(content, &named); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return named.Resources, nil
}

// splitInto writes the objects of a file to files of their own, as they are but for comments above them.
func splitInto(dir, file string) error {
	content, err := os.ReadFile(file) //nolint:gosec // the project's own manifests
	if err != nil {
		return err
	}
	for _, document := range documents(string(content)) {
		var object struct {
			Kind     string `json:"kind"`
			Metadata struct {
				Name string `json:"name"`
			} `json:"metadata"`
		}
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if object.Kind == "" || object.Metadata.Name == "" {
			return fmt.Errorf("%s: %w", file, errors.New("expected kind and metadata.name in each document"))
		}
		if object.Kind == "Namespace" {
			continue
		}
		to := filepath.Join(dir, strings.ToLower(object.Kind)+"-"+object.Metadata.Name+".yaml")
		if err := write(to, []byte(chartFilesHeader+uncommented(document))); err != nil {
			return err
		}
	}
	return nil
}

// uncommented is a document without the lines above the object.
func uncommented(document string) string {
	lines := strings.SplitAfter(document, "\n")
	for len(lines) > 0 && (strings.HasPrefix(lines[0], "#") || strings.HasPrefix(lines[0], "---") || strings.TrimSpace(lines[0]) == "") {
		lines = lines[1:]
	}
	return strings.TrimRight(strings.Join(lines, ""), "\n") + "\n"
}
