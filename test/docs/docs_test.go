package docs

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const root = "../.."

func read(t *testing.T) []Block {
	t.Helper()
	pages, err := Pages(root)
	require.NoError(t, err)
	require.NotEmpty(t, pages)
	var all []Block
	for _, page := range pages {
		blocks, err := Blocks(root, page)
		require.NoError(t, err)
		all = append(all, blocks...)
	}
	return all
}

// R56: what the documentation tells people to type was typed by a test, or it says why not.
func TestEveryCommandIsRunOrSaysWhyNot(t *testing.T) {
	for _, b := range read(t) {
		if problem := b.Problem(root); problem != "" {
			t.Errorf("%s:%d: %s", b.Page, b.Line, problem)
		}
	}
}

// Each script has its place in the order in which they are executed, once, and none is left over.
func TestEveryScriptHasItsPlaceInTheOrder(t *testing.T) {
	var found []Script
	for _, s := range Scripts(read(t)) {
		found = append(found, Script{Page: s.Page, Name: s.Name})
	}
	assert.ElementsMatch(t, Order, found)
}

func TestAPageIsReadIntoBlocks(t *testing.T) {
	blocks, err := parse("p.md", []byte("text\n<!-- run: one -->\n```sh\na\n```\n\n- item\n  <!-- not run: it takes a provider -->\n  ```sh\n  b\n    c\n  ```\n<!-- run: one -->\n\n```sh\nd\n```\n<!-- run: one -->\n```sh\ne\n```\n"))
	require.NoError(t, err)
	assert.Equal(t, []Block{
		{Page: "p.md", Line: 3, Language: "sh", Mark: Run, Said: "one", Code: "a\n"},
		{Page: "p.md", Line: 9, Language: "sh", Mark: NotRun, Said: "it takes a provider", Code: "b\n  c\n"},
		{Page: "p.md", Line: 15, Language: "sh", Code: "d\n"}, // an empty line between: no mark
		{Page: "p.md", Line: 19, Language: "sh", Mark: Run, Said: "one", Code: "e\n"},
	}, blocks)
	assert.Equal(t, []Script{{Page: "p.md", Name: "one", Code: "a\ne\n"}}, Scripts(blocks))
	_, err = parse("p.md", []byte("```sh\na\n"))
	require.EqualError(t, err, "p.md:1: expected an end of the block")
}

func TestWhatABlockMayNotBe(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.yaml"), []byte("# for tests\n# only\na: 1\n"), 0o600))
	for name, c := range map[string]struct {
		block Block
		want  string
	}{
		"commands without a mark":  {Block{Language: "sh"}, "expected a comment right above it"},
		"no language":              {Block{}, "expected a language"},
		"a transcript that is run": {Block{Language: "console", Mark: Run, Said: "x"}, "only a block of sh can be run"},
		"no reason":                {Block{Language: "sh", Mark: NotRun, Said: "later"}, "expected a reason in words"},
		"a test that is gone":      {Block{Language: "sh", Mark: TestedBy, Said: "a.yaml TestGone"}, `a.yaml does not have "TestGone"`},
		"a file that is gone":      {Block{Language: "sh", Mark: TestedBy, Said: "b.yaml a"}, "expected a file of ours"},
		"a file without a word":    {Block{Language: "sh", Mark: TestedBy, Said: "a.yaml"}, "does not have"},
		"another content":          {Block{Language: "yaml", Mark: File, Said: "a.yaml", Code: "a: 2\n"}, "expected what a.yaml holds"},
		"the same content":         {Block{Language: "yaml", Mark: File, Said: "a.yaml", Code: "a: 1\n"}, ""},
		"a test that is there":     {Block{Language: "sh", Mark: TestedBy, Said: "a.yaml for tests"}, ""},
		"a run":                    {Block{Language: "sh", Mark: Run, Said: "x"}, ""},
		"a reason":                 {Block{Language: "sh", Mark: NotRun, Said: "it takes a provider"}, ""},
		"output":                   {Block{Language: "text"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.block.Problem(dir)
			if c.want == "" {
				assert.Empty(t, got)
				return
			}
			assert.Contains(t, got, c.want)
		})
	}
}

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.+)$`)
	dropped = regexp.MustCompile("[^\\p{L}\\p{N} _-]")
	fenced  = regexp.MustCompile("(?ms)^\\s*```.*?^\\s*```$")
)

// Links between our own files lead somewhere, anchors included.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	pages, err := Pages(root)
	require.NoError(t, err)
	for _, page := range append(pages, "SPEC.md", "CHANGELOG.md") {
		content, err := os.ReadFile(filepath.Join(root, page)) //nolint:gosec // a page of ours
		if os.IsNotExist(err) {
			continue
		}
		require.NoError(t, err)
		for _, found := range link.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
			to, err := url.Parse(found[1])
			require.NoError(t, err, page)
			if to.Scheme != "" {
				continue
			}
			target := page
			if to.Path != "" {
				target = filepath.Join(filepath.Dir(page), to.Path)
			}
			if !assert.FileExists(t, existing(target), "%s: %s", page, found[1]) || to.Fragment == "" {
				continue
			}
			assert.True(t, slices.Contains(anchors(t, target), to.Fragment), "%s: %s has no heading for #%s", page, target, to.Fragment)
		}
	}
}

// existing is the path of a file, or of something in the directory that was named.
func existing(target string) string {
	path := filepath.Join(root, target)
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		found, _ := filepath.Glob(filepath.Join(path, "*.*"))
		if len(found) > 0 {
			return found[0]
		}
	}
	return path
}

// anchors are what a page's headings are called in links.
func anchors(t *testing.T, page string) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, page)) //nolint:gosec // a page of ours
	require.NoError(t, err)
	var names []string
	for _, h := range heading.FindAllStringSubmatch(fenced.ReplaceAllString(string(content), ""), -1) {
		names = append(names, strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(strings.TrimSpace(h[1])), ""), " ", "-"))
	}
	return names
}
