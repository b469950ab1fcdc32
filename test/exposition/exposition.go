// Package exposition keeps what was really exposed while tests ran, so that hack/promcheck can hold alerts and dashboard against it.
package exposition

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
)

// Dir names the directory that gets the files; without it nothing is kept.
const Dir = "HEARTH_EXPOSITION"

// Keep writes what a process served in Prometheus' text format, under a name that begins with harness or controller.
func Keep(name, text string) error {
	dir := os.Getenv(Dir)
	if dir == "" {
		return nil
	}
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, name+".prom"), []byte(text), 0o600)
}

// KeepRegistry writes what a test binary that was a controller would serve now, as controller-NAME-moment.
func KeepRegistry(registry prometheus.Gatherer, moment string) error {
	if os.Getenv(Dir) == "" {
		return nil
	}
	families, err := registry.Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			return err
		}
	}
	name := strings.TrimSuffix(filepath.Base(os.Args[0]), ".test")
	return Keep("controller-"+name+"-"+moment, text.String())
}
