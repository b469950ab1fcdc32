package apiserver

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	fieldOwner   = client.FieldOwner("hearth-test")
	yamlBuffer   = 4096
	kustomizeDoc = "kustomization.yaml"
)

// Apply applies the YAML documents of a file, or of a directory's files in the order of their names, server-side, as
// `kubectl apply --server-side -f` does.
func Apply(ctx context.Context, config *rest.Config, path string) error {
	c, err := client.New(config, client.Options{})
	if err != nil {
		return fmt.Errorf("apply %s: %w", path, err)
	}
	files := []string{path}
	if info, err := os.Stat(path); err != nil {
		return fmt.Errorf("apply: %w", err)
	} else if info.IsDir() {
		if files, err = filepath.Glob(filepath.Join(path, "*.yaml")); err != nil {
			return fmt.Errorf("apply %s: %w", path, err)
		}
		slices.Sort(files)
	}
	for _, file := range files {
		if filepath.Base(file) == kustomizeDoc {
			continue
		}
		if err := applyFile(ctx, c, file); err != nil {
			return fmt.Errorf("apply %s: %w", file, err)
		}
	}
	return nil
}

func applyFile(ctx context.Context, c client.Client, file string) error {
	text, err := os.ReadFile(file) //nolint:gosec // a file of this repository
	if err != nil {
		return err
	}
	for decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), yamlBuffer); ; {
		var object unstructured.Unstructured
		err := decoder.Decode(&object.Object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue
		}
		if err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(&object), fieldOwner, client.ForceOwnership); err != nil {
			return err
		}
	}
}
