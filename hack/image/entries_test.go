package main

import (
	"path"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestLddNamesLibrariesAndLoader(t *testing.T) {
	got, err := parseLdd("\tlinux-vdso.so.1 (0x00007f54df63b000)\n\tlibm.so.6 => /lib/x/libm.so.6 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n\tlibm2.so => /lib/x/libm.so.6 (0x1)\n")
	require.NoError(t, err)
	assert.Equal(t, []string{"/lib/x/libc.so.6", "/lib/x/libm.so.6", "/lib64/ld-linux-x86-64.so.2"}, got)
}

func TestLddSaysWhatIsMissing(t *testing.T) {
	_, err := parseLdd("\tlibgcc_s.so.1 => not found\n")
	require.EqualError(t, err, "library libgcc_s.so.1 is not on this machine")
	_, err = parseLdd("\tstatically linked\n")
	require.EqualError(t, err, `expected library paths, got "statically linked"`)
}

func FuzzParseLdd(f *testing.F) {
	f.Add("a => /b (0x1)\n/c (0x2)")
	f.Add("a => not found")
	f.Add(" => ")
	f.Fuzz(func(t *testing.T, out string) {
		files, err := parseLdd(out)
		if err != nil {
			return
		}
		for _, file := range files {
			assert.True(t, path.IsAbs(file), file)
			assert.Equal(t, path.Clean(file), file)
		}
	})
}

func TestTwoEntriesMayNotDisagree(t *testing.T) {
	tr := tree{}
	require.NoError(t, tr.add("/a", node{text: "x"}))
	require.NoError(t, tr.add("/a", node{text: "x"}))
	require.EqualError(t, tr.add("/a", node{text: "y"}), "/a: two entries of one layer put different things there")
}
