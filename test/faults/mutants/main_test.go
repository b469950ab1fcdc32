package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../../.." // of the module

// Every patch still applies, and every test that it names exists. make mutants shows that they see it.
func TestThePatchesFitTheTree(t *testing.T) {
	t.Parallel()
	patches, err := readPatches(".")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 16)
	dir, err := filepath.Abs(root)
	require.NoError(t, err)
	for _, p := range patches {
		assert.NoError(t, apply(t.Context(), dir, p.file, "--check"), p.name)
		for _, row := range p.rows {
			assert.True(t, row >= 1 && row <= 56, "%s: there is no row %d", p.name, row)
		}
		for _, s := range p.red {
			assert.True(t, exists(t, s), "%s: there is no %s", p.name, s)
		}
	}
}

// exists tells whether a package has a test of that name.
func exists(t *testing.T, s seer) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, s.pkg, "*_test.go"))
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file) //nolint:gosec // a file of the tree
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+s.test+"(t *testing.T)") {
			return true
		}
	}
	return false
}

func TestAPatchSaysWhatItIs(t *testing.T) {
	t.Parallel()
	p, err := parse("Removes: the lock\nRows: 7, 8\nRed: a/b TestX\nRed: a TestRow07_Y tags=faults short\n\n--- a/x.go\nRed: not a header any more\n")
	require.NoError(t, err)
	assert.Equal(t, patch{removes: "the lock", rows: []int{7, 8}, red: []seer{
		{suite{pkg: "a/b"}, "TestX"}, {suite{"a", "faults", true}, "TestRow07_Y"},
	}}, p)
	for text, want := range map[string]string{
		"Rows: 7\nRed: a TestX\n":               "Removes",
		"Removes: x\n":                          "Red: expected at least one",
		"Removes: x\nRed: TestX\n":              "Red: expected a package",
		"Removes: x\nRed: a b\n":                "Red: expected a package",
		"Removes: x\nRed: a TestX race\n":       "tags= or short",
		"Removes: x\nRows: seven\nRed: a TestX": "Rows: expected numbers",
		"Removes: x\nKills: a TestX\n":          `"Kills": expected Removes, Rows or Red`,
	} {
		_, err := parse(text)
		assert.ErrorContains(t, err, want, text)
	}
}

// files of a module with one protection and tests that see it, that do not, and that are red anyhow.
var files = map[string]string{
	"go.mod":      "module example.com/m\n\ngo 1.26\n",
	".gitignore":  "*.log\n",
	"ignored.log": "x",
	"x/x.go":      "package x\n\nfunc Safe(n int) bool {\n\treturn n < 10\n}\n",
	"x/x_test.go": `package x

import "testing"

func TestSees(t *testing.T) {
	if Safe(10) {
		t.Fatal("10")
	}
}

func TestPanics(t *testing.T) {
	if Safe(10) {
		panic("10")
	}
}

func TestTakesTheProcessDown(t *testing.T) {
	if Safe(10) {
		go panic("10")
		select {}
	}
}

func TestHangs(t *testing.T) {
	if Safe(10) {
		select {}
	}
}

func TestBlind(t *testing.T) {}

func TestSkips(t *testing.T) { t.Skip() }

func TestRedAnyhow(t *testing.T) { t.Fatal("no") }
`,
}

const (
	weaker  = "--- a/x/x.go\n+++ b/x/x.go\n@@ -1,5 +1,5 @@\n package x\n \n func Safe(n int) bool {\n-\treturn n < 10\n+\treturn n < 11\n }\n"
	broken  = "--- a/x/x.go\n+++ b/x/x.go\n@@ -1,5 +1,5 @@\n package x\n \n func Safe(n int) bool {\n-\treturn n < 10\n+\treturn n\n }\n"
	foreign = "--- a/x/x.go\n+++ b/x/x.go\n@@ -1,5 +1,5 @@\n package x\n \n func Safe(n int) bool {\n-\treturn n < 99\n+\treturn n < 11\n }\n"
)

// module makes the module with patches, as a repository.
func module(t *testing.T, patches map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	for name, text := range patches {
		write(t, filepath.Join(dir, "patches", name+".patch"), text)
	}
	out, err := exec.CommandContext(t.Context(), "git", "init", "-q", dir).CombinedOutput()
	require.NoError(t, err, string(out))
	return dir
}

func write(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o750))
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
}

func mutate(t *testing.T, dir string, more ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	err := command(t.Context(), append([]string{"-root", dir, "-patches", "patches", "-limit", "5s"}, more...), &out)
	text, readErr := os.ReadFile(filepath.Join(dir, "x/x.go"))
	require.NoError(t, readErr)
	assert.Equal(t, files["x/x.go"], string(text), "the tree is only read")
	return out.String(), err
}

func TestAMutantIsSeenWhenAllItsTestsAreRed(t *testing.T) {
	t.Parallel()
	said, err := mutate(t, module(t, map[string]string{
		"fails": "Removes: a\nRows: 1\nRed: x TestSees\n" + weaker,
		"ends":  "Removes: b\nRows: 2, 3\nRed: x TestPanics\nRed: x TestSees\n" + weaker, // a panic takes the other one down
		"kills": "Removes: d\nRed: x TestTakesTheProcessDown\nRed: x TestSees\n" + weaker,
		"hangs": "Removes: c\nRed: x TestHangs\n" + weaker,
	}))
	require.NoError(t, err)
	assert.Regexp(t, `(?m)^fails +1 +TestSees `, said)
	assert.Regexp(t, `(?m)^ends +2, 3 +TestPanics, TestSees `, said)
	assert.Regexp(t, `(?m)^kills +TestTakesTheProcessDown, TestSees `, said)
	assert.Regexp(t, `(?m)^hangs +TestHangs `, said)
}

func TestWhatIsNotSeenFails(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ red, diff, want string }{
		"one of its tests is green":      {"Red: x TestSees\nRed: x TestBlind\n", weaker, "x.TestBlind stays green"},
		"a compile error is no test":     {"Red: x TestSees\n", broken, "does not compile"},
		"it is about another tree":       {"Red: x TestSees\n", foreign, "does not apply"},
		"its test is red without it":     {"Red: x TestRedAnyhow\n", weaker, "TestRedAnyhow is not green without any patch"},
		"its test is skipped":            {"Red: x TestSkips\n", weaker, "TestSkips is not green without any patch"},
		"its test does not exist":        {"Red: x TestNowhere\n", weaker, "TestNowhere is not green without any patch"},
		"its package does not exist":     {"Red: y TestSees\n", weaker, "TestSees is not green without any patch"},
		"nothing matches what was asked": {"Red: x TestSees\n", weaker, "no patch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			only := "^one$"
			if strings.HasPrefix(name, "nothing") {
				only = "two"
			}
			_, err := mutate(t, module(t, map[string]string{"one": "Removes: a\n" + c.red + c.diff}), "-run", only)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestACopyHasWhatGitKnowsAndWhatIsNew(t *testing.T) {
	t.Parallel()
	from, to := module(t, nil), t.TempDir()
	write(t, filepath.Join(from, "new/file"), "n")
	require.NoError(t, os.Symlink("file", filepath.Join(from, "new/link")))
	require.NoError(t, copyTree(t.Context(), from, to))
	for name, want := range map[string]string{"x/x.go": files["x/x.go"], "new/file": "n", "new/link": "n"} {
		text, err := os.ReadFile(filepath.Join(to, name)) //nolint:gosec // the test's own
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
	}
	assert.NoFileExists(t, filepath.Join(to, "ignored.log"))
}

func TestWrongFlagsAreRefused(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"-run: expected a regular expression": {"-run", "("},
		"-jobs: expected at least 1":          {"-jobs", "0"},
		"not defined":                         {"-all"},
	} {
		assert.ErrorContains(t, command(t.Context(), args, &bytes.Buffer{}), want)
	}
}
