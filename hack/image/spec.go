package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/google/go-containerregistry/pkg/name"
)

// specFile is the declarative description in an image's folder.
const specFile = "image.json"

// image is what an image.json holds.
type image struct {
	// Name is the reference the image gets, with a tag.
	Name string `json:"name"`
	// Inputs are the files that are made or found before the layers, by the name entries use.
	Inputs map[string]input `json:"inputs"`
	// Layers go from what changes least to what changes most.
	Layers     []layerSpec       `json:"layers"`
	Entrypoint []string          `json:"entrypoint"`
	Cmd        []string          `json:"cmd"`
	Env        []string          `json:"env"`
	User       string            `json:"user"`
	WorkingDir string            `json:"workingDir"`
	Labels     map[string]string `json:"labels"`
	// Release is the architectures that a release has the image for; none: the image is no part of one.
	Release []string `json:"release"`
}

// input is exactly one of a Go package, built static, and a script whose last line names a file.
type input struct {
	Go  string `json:"go"`
	Run string `json:"run"`
}

type layerSpec struct {
	Entries []entry `json:"entries"`
}

// entry is one path: exactly one of a directory, an input's content, a text and a symbolic link.
type entry struct {
	Path  string `json:"path"`
	Dir   bool   `json:"dir"`
	Input string `json:"input"`
	Text  string `json:"text"`
	Link  string `json:"link"`
	// Mode is octal; by default 0755 for directories and inputs, 0644 for texts.
	Mode string `json:"mode"`
	// Libraries adds what ldd finds for the input, at the paths it is found.
	Libraries bool `json:"libraries"`
	// Applets adds links to a busybox beside it, one for each name in its --list.
	Applets bool `json:"applets"`
}

// readSpec reads and checks an image's description. The error names the file and the field.
func readSpec(folder string) (image, error) {
	file := filepath.Join(folder, specFile)
	f, err := os.Open(file) // #nosec G304 -- the project's own description
	if err != nil {
		return image{}, err
	}
	defer func() { _ = f.Close() }()
	decoder := json.NewDecoder(f)
	decoder.DisallowUnknownFields()
	var spec image
	if err := decoder.Decode(&spec); err != nil {
		return image{}, fmt.Errorf("%s: %w", file, err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return image{}, fmt.Errorf("%s: expected one JSON object and nothing after it", file)
	}
	if err := spec.check(); err != nil {
		return image{}, fmt.Errorf("%s: %w", file, err)
	}
	return spec, nil
}

func (s image) check() error {
	if _, err := name.NewTag(s.Name, name.StrictValidation); err != nil {
		return fmt.Errorf("name: %w", err)
	}
	if err := s.checkRelease(); err != nil {
		return err
	}
	for key, in := range s.Inputs {
		if (in.Go == "") == (in.Run == "") {
			return fmt.Errorf("inputs.%s: expected exactly one of go and run", key)
		}
	}
	if len(s.Layers) == 0 {
		return errors.New("layers: expected at least one")
	}
	for i, layer := range s.Layers {
		for j, e := range layer.Entries {
			if err := s.checkEntry(e); err != nil {
				return fmt.Errorf("layers[%d].entries[%d] (%s): %w", i, j, e.Path, err)
			}
		}
	}
	return nil
}

func (s image) checkEntry(e entry) error {
	if !path.IsAbs(e.Path) || path.Clean(e.Path) != e.Path || e.Path == "/" {
		return errors.New("path: expected a clean absolute path below /")
	}
	kinds := 0
	for _, is := range []bool{e.Dir, e.Input != "", e.Text != "", e.Link != ""} {
		if is {
			kinds++
		}
	}
	if kinds != 1 {
		return errors.New("expected exactly one of dir, input, text and link")
	}
	if _, ok := s.Inputs[e.Input]; e.Input != "" && !ok {
		return fmt.Errorf("input: %q is not among inputs", e.Input)
	}
	if e.Input == "" && (e.Libraries || e.Applets) {
		return errors.New("libraries and applets: only for an input")
	}
	_, err := e.mode()
	return err
}

// mode is the entry's permission bits in the form a tar header has them.
func (e entry) mode() (int64, error) {
	switch {
	case e.Mode != "":
		mode, err := strconv.ParseUint(e.Mode, 8, 12)
		if err != nil {
			return 0, fmt.Errorf("mode: expected octal digits up to 7777, got %q", e.Mode)
		}
		return int64(mode), nil // #nosec G115 -- twelve bits
	case e.Text != "":
		return 0o644, nil
	default:
		return 0o755, nil
	}
}
