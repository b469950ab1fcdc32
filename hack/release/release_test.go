package main

import (
	"archive/tar"
	"compress/gzip"
	"debug/buildinfo"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/xeipuuv/gojsonschema"
)

// bench is a workshop for this repository as it lies here.
func bench(t *testing.T) workshop {
	t.Helper()
	root, err := filepath.Abs("../..")
	require.NoError(t, err)
	dir := t.TempDir()
	return workshop{
		source: source{
			root: root, version: "v9.8.7", registry: "localhost", revision: "0123456789abcdef0123456789abcdef01234567",
			created: time.Unix(1700000000, 0).UTC(),
		},
		bin: filepath.Join(dir, "bin"), layouts: filepath.Join(dir, "layouts"), out: filepath.Join(dir, "out"), progress: t.Output(), told: map[string][]notice{},
	}
}

func harness(t *testing.T) program {
	t.Helper()
	p, ok := programAt("/harness")
	require.True(t, ok)
	return p
}

// A program says which release it is; its archive has the licences of what it links; its bill has what the compiler wrote into it,
// and is right to CycloneDX's own schema. The image has the same bytes, and its bill the same parts.
func TestAProgramItsArchiveItsImageAndTheirBillsAgree(t *testing.T) {
	w, p := bench(t), harness(t)
	for _, on := range p.platforms {
		require.NoError(t, w.program(t.Context(), p, on))
	}
	const base = "hearth-harness_v9.8.7_linux_amd64"
	binary := filepath.Join(w.bin, "linux-amd64", "harness")
	if runtime.GOARCH == "amd64" {
		said, err := exec.CommandContext(t.Context(), binary, "version").Output()
		require.NoError(t, err)
		assert.Equal(t, "v9.8.7\n", string(said))
	}
	archived := contents(t, filepath.Join(w.out, base+".tar.gz"))
	assert.Len(t, archived, 3)
	program, err := os.ReadFile(binary)
	require.NoError(t, err)
	assert.Equal(t, string(program), archived[base+"/harness"])
	assert.Contains(t, archived[base+"/LICENSE"], "Apache License")
	assert.Contains(t, archived[base+"/LICENCES-OF-OTHERS"], "the Go standard library (BSD-3-Clause)")

	bill := readBill(t, filepath.Join(w.out, base+".cdx.json"))
	info, err := buildinfo.ReadFile(binary)
	require.NoError(t, err)
	linked := map[string]string{"std": info.GoVersion}
	for _, dep := range info.Deps {
		linked[dep.Path] = dep.Version
		assert.Contains(t, archived[base+"/LICENCES-OF-OTHERS"], dep.Path+" "+dep.Version)
	}
	assert.Equal(t, linked, librariesOf(t, bill))
	assert.Equal(t, "2023-11-14T22:13:20Z", bill.Metadata.Timestamp)
	sum, err := sumOf(binary)
	require.NoError(t, err)
	assert.Equal(t, sum, (*bill.Metadata.Component.Hashes)[0].Value)

	again := bench(t) // elsewhere, in another time zone, for somebody who has flags of his own
	t.Setenv("TZ", "Pacific/Kiritimati")
	t.Setenv("GOFLAGS", "-buildvcs=true")
	require.NoError(t, again.program(t.Context(), p, p.platforms[0]))
	for _, name := range []string{base + ".tar.gz", base + ".cdx.json"} {
		one, err := sumOf(filepath.Join(w.out, name))
		require.NoError(t, err)
		two, err := sumOf(filepath.Join(again.out, name))
		require.NoError(t, err)
		assert.Equal(t, one, two, name)
	}

	require.NoError(t, w.layOut(t.Context(), "harness"))
	require.NoError(t, w.pack(t.Context(), "hearth-harness"))
	index, _, err := w.index("hearth-harness")
	require.NoError(t, err)
	require.NoError(t, validate.Index(index))
	image := readBill(t, filepath.Join(w.out, "hearth-harness_v9.8.7_oci_linux_amd64.cdx.json"))
	assert.Equal(t, linked, librariesOf(t, image))
	files := map[string]string{}
	for _, c := range *image.Components {
		if c.Type == cdx.ComponentTypeFile {
			files[c.Name] = (*c.Hashes)[0].Value
		}
	}
	assert.Equal(t, sum, files["/harness"])
	assert.Contains(t, files, "/usr/share/licenses/hearth/LICENSE")
	assert.FileExists(t, filepath.Join(w.out, "hearth-harness_v9.8.7_oci_linux_arm64.cdx.json"))

	require.NoError(t, w.sums(t.Context()))
	check := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sumsFile)
	check.Dir = w.out
	said, err := check.CombinedOutput()
	require.NoError(t, err, string(said))
	made, err := os.ReadDir(w.out)
	require.NoError(t, err)
	assert.Equal(t, len(made)-1, strings.Count(string(said), ": OK\n"), "each file but the sums themselves")
}

func contents(t *testing.T, name string) map[string]string {
	t.Helper()
	f, err := os.Open(name)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	plain, err := gzip.NewReader(f)
	require.NoError(t, err)
	assert.True(t, plain.ModTime.IsZero())
	all := map[string]string{}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		assert.Equal(t, int64(1700000000), header.ModTime.Unix())
		assert.Zero(t, header.Uid+header.Gid)
		content, err := io.ReadAll(archive)
		require.NoError(t, err)
		all[header.Name] = string(content)
	}
}

// readBill reads a bill that CycloneDX's schema takes.
func readBill(t *testing.T, name string) *cdx.BOM {
	t.Helper()
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/CycloneDX/cyclonedx-go").Output()
	require.NoError(t, err)
	at := func(file string) gojsonschema.JSONLoader {
		return gojsonschema.NewReferenceLoader("file://" + strings.TrimSpace(string(dir)) + "/schema/" + file)
	}
	loader := gojsonschema.NewSchemaLoader()
	require.NoError(t, loader.AddSchema("http://cyclonedx.org/schema/jsf-0.82.schema.json", at("jsf-0.82.schemax.json")))
	require.NoError(t, loader.AddSchema("http://cyclonedx.org/schema/spdx.schema.json", at("spdx.schema.json")))
	schema, err := loader.Compile(at("bom-1.6.schema.json"))
	require.NoError(t, err)
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	result, err := schema.Validate(gojsonschema.NewBytesLoader(content))
	require.NoError(t, err)
	assert.Empty(t, result.Errors(), name)
	var bill cdx.BOM
	require.NoError(t, cdx.NewBOMDecoder(strings.NewReader(string(content)), cdx.BOMFileFormatJSON).Decode(&bill))
	return &bill
}

func librariesOf(t *testing.T, bill *cdx.BOM) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, c := range *bill.Components {
		if c.Type == cdx.ComponentTypeLibrary {
			assert.NotEmpty(t, *c.Licenses, c.Name)
			found[c.Name] = c.Version
		}
	}
	return found
}

func TestAnArchiveDependsOnNothingButFilesAndTime(t *testing.T) {
	dir, when := t.TempDir(), time.Unix(1700000000, 0)
	on := filepath.Join(dir, "on-disk")
	require.NoError(t, os.WriteFile(on, []byte("x"), 0o600))
	files := []file{{name: "b", mode: 0o755, source: on}, {name: "a", mode: 0o644, text: "y"}}
	require.NoError(t, writeGzip(filepath.Join(dir, "one"), files, when))
	require.NoError(t, os.Chmod(on, 0o755))
	require.NoError(t, os.Chtimes(on, time.Unix(1, 0), time.Unix(1, 0)))
	require.NoError(t, writeGzip(filepath.Join(dir, "two"), []file{files[1], files[0]}, when))
	one, err := os.ReadFile(filepath.Join(dir, "one"))
	require.NoError(t, err)
	two, err := os.ReadFile(filepath.Join(dir, "two"))
	require.NoError(t, err)
	assert.Equal(t, one, two)
	assert.Equal(t, map[string]string{"a": "y", "b": "x"}, contents(t, filepath.Join(dir, "two")))
}

// A module that is linked and has no licence that anybody found stops the release.
func TestAModuleWithoutALicenceStopsTheRelease(t *testing.T) {
	program, err := os.Executable() // this test links modules, too
	require.NoError(t, err)
	_, err = billOf(source{version: "v9.8.7"}, harness(t), program, []notice{{Path: "std", Licences: []string{"BSD-3-Clause"}}})
	require.ErrorContains(t, err, "is linked, and hack/licences does not know it")
}

func TestSerialNumbersNameWhatTheyAreMadeOf(t *testing.T) {
	first, again := serial("a"), serial("a")
	assert.Equal(t, first, again)
	assert.NotEqual(t, serial("a"), serial("b"))
	assert.Regexp(t, `^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, serial("a"))
}
