package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEveryImageOfTheProjectIsDescribedWell(t *testing.T) {
	b, err := newBuilder("../..", t.Output())
	require.NoError(t, err)
	folders, err := b.folders(nil)
	require.NoError(t, err)
	require.NotEmpty(t, folders)
	for _, folder := range folders {
		spec, err := readSpec(filepath.Join(b.root, "images", folder))
		require.NoError(t, err)
		assert.Equal(t, "localhost/hearth-"+folder+":dev", spec.Name)
		assert.Equal(t, "65532:65532", spec.User, "images run as nobody in particular, never as root")
	}
	_, err = b.folders([]string{"nope"})
	require.ErrorContains(t, err, `no image "nope": expected one of agent-goose, `)
}

func TestDescriptionsThatMakeNoSenseNameTheField(t *testing.T) {
	for _, tt := range []struct{ spec, want string }{
		{`{"nam":"x"}`, `unknown field "nam"`},
		{`{"name":"localhost/x:dev","layers":[{}]} {}`, "expected one JSON object and nothing after it"},
		{`{"name":"x"}`, "name:"},
		{`{"name":"localhost/x:dev"}`, "layers: expected at least one"},
		{`{"name":"localhost/x:dev","inputs":{"a":{}},"layers":[{}]}`, "inputs.a: expected exactly one of go and run"},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"a","dir":true}]}]}`, "layers[0].entries[0] (a): path: expected a clean absolute path"},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"/../a","dir":true}]}]}`, "path: expected a clean absolute path"},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"/a","dir":true,"link":"b"}]}]}`, "expected exactly one of dir, input, text and link"},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"/a","input":"b"}]}]}`, `input: "b" is not among inputs`},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"/a","text":"b","libraries":true}]}]}`, "only for an input"},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"/a","text":"b","mode":"8"}]}]}`, `mode: expected octal digits up to 7777, got "8"`},
		{`{"name":"localhost/x:dev","layers":[{"entries":[{"path":"/a","text":"b","mode":"10000"}]}]}`, "mode: expected octal digits"},
	} {
		folder := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(folder, specFile), []byte(tt.spec), 0o600))
		_, err := readSpec(folder)
		require.ErrorContains(t, err, tt.want, tt.spec)
		assert.ErrorContains(t, err, specFile)
	}
}
