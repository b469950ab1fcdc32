package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const (
	// devImage is what config/ and images/controller call the controller's image.
	devImage = "localhost/hearth-controller:dev"

	manifestHeader = "# Made from config/ by `make generate`. To install: kubectl apply --server-side -f dist/install.yaml (docs/install.md)\n"

	fileMode = 0o644
	dirMode  = 0o755
)

func manifestFile(root string) string { return filepath.Join(root, "dist", "install.yaml") }

// writeManifest writes everything that config/ makes, with that image, into one file.
func writeManifest(root, image, file string) error {
	objects, err := kustomize(filepath.Join(root, "config"))
	if err != nil {
		return err
	}
	text, err := objects.AsYaml()
	if err != nil {
		return fmt.Errorf("config: %w", err)
	}
	if text, err = withImage(text, image); err != nil {
		return err
	}
	return write(file, append([]byte(manifestHeader), text...))
}

// kustomize is what `kubectl kustomize DIR` does.
func kustomize(dir string) (resmap.ResMap, error) {
	options := krusty.MakeDefaultOptions()
	options.Reorder = krusty.ReorderOptionUnspecified // config/kustomization.yaml says
	objects, err := krusty.MakeKustomizer(options).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("kustomize %s: %w", dir, err)
	}
	return objects, nil
}

func withImage(text []byte, image string) ([]byte, error) {
	if n := bytes.Count(text, []byte(devImage)); n != 1 {
		return nil, fmt.Errorf("config: expected the image %s once, it is there %d times", devImage, n)
	}
	return bytes.ReplaceAll(text, []byte(devImage), []byte(image)), nil
}

// documents are those of a YAML file, without their comments before the first and between them.
func documents(text string) []string {
	var all []string
	for _, document := range strings.Split("\n"+text, "\n---\n") {
		if strings.TrimSpace(document) != "" {
			all = append(all, strings.TrimLeft(document, "\n"))
		}
	}
	return all
}

func write(file string, content []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), dirMode); err != nil { //nolint:gosec // of the repository, for everybody
		return err
	}
	return os.WriteFile(file, content, fileMode) //nolint:gosec // of the repository, for everybody
}
