package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each image is described twice: for hack/image, and for people with Docker or buildah. What a container runs as, with what, and where
// our programs lie is the same.
func TestContainerfilesMakeTheSameImages(t *testing.T) {
	b, err := newBuilder("../..", t.Output())
	require.NoError(t, err)
	folders, err := b.folders(nil)
	require.NoError(t, err)
	for _, folder := range folders {
		t.Run(folder, func(t *testing.T) {
			spec, err := readSpec(filepath.Join(b.root, "images", folder))
			require.NoError(t, err)
			f := readContainerfile(t, filepath.Join(b.root, "images", folder, "Containerfile"))
			assert.Equal(t, spec.User, f.last("USER"))
			assert.Equal(t, spec.WorkingDir, f.last("WORKDIR"))
			assert.Equal(t, spec.Entrypoint, f.list(t, "ENTRYPOINT"))
			assert.Equal(t, spec.Cmd, f.list(t, "CMD"))
			assert.ElementsMatch(t, spec.Env, strings.Fields(f.last("ENV")))
			var labels []string
			for name, value := range spec.Labels {
				labels = append(labels, name+`="`+value+`"`)
			}
			assert.ElementsMatch(t, labels, strings.Fields(f.last("LABEL")))
			for _, layer := range spec.Layers {
				for _, e := range layer.Entries {
					in := spec.Inputs[e.Input]
					if in.Go != "" {
						assert.True(t, f.has(e.Path), "nothing is copied to %s", e.Path)
						assert.Contains(t, f.text, " -o /out/"+path.Base(in.Go)+" "+in.Go+"\n")
					}
					if e.Input == "goose" {
						assert.True(t, f.has(e.Path), "nothing is copied to %s", e.Path)
					}
				}
			}
			for line := range strings.Lines(f.text) { // no name of a registry that cannot be changed
				if from, is := strings.CutPrefix(line, "FROM "); is {
					assert.True(t, strings.HasPrefix(from, "${") || from == "scratch\n", line)
				}
			}
		})
	}
}

// containerfile is a Containerfile, with the instructions of its last stage.
type containerfile struct {
	text  string
	stage map[string][]string
}

func readContainerfile(t *testing.T, name string) containerfile {
	t.Helper()
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	f := containerfile{text: string(content)}
	for line := range strings.Lines(f.text) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		require.False(t, strings.HasSuffix(rest, `\`), "an instruction is a line: %s", line)
		if instruction == "FROM" {
			f.stage = map[string][]string{}
		}
		if f.stage != nil {
			f.stage[instruction] = append(f.stage[instruction], rest)
		}
	}
	return f
}

func (f containerfile) last(instruction string) string {
	all := f.stage[instruction]
	if len(all) == 0 {
		return ""
	}
	return all[len(all)-1]
}

func (f containerfile) list(t *testing.T, instruction string) []string {
	t.Helper()
	if f.last(instruction) == "" {
		return nil
	}
	var list []string
	require.NoError(t, json.Unmarshal([]byte(f.last(instruction)), &list), "a list, or a shell swallows signals")
	return list
}

// has says whether the last stage copies something to a path: the file itself, or all of /out, in which the build put it.
func (f containerfile) has(file string) bool {
	for _, c := range f.stage["COPY"] {
		words := strings.Fields(c)
		to := words[len(words)-1]
		if to == file || to == "/" && words[len(words)-2] == "/out/" && strings.Contains(f.text, " -o /out"+file+" ") {
			return true
		}
	}
	return false
}
