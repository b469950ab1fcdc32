package template

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// SPEC.md, Resources: ${name}, $${ as a literal, one pass.
func TestTemplateRendersEachPlaceholderOnce(t *testing.T) {
	values := map[string]string{"a": "one", "b": "${a}", "_c1": "$${a}"}
	for template, want := range map[string]string{
		"":                  "",
		"no placeholder":    "no placeholder",
		"${a}":              "one",
		"${a}${a} and ${a}": "oneone and one",
		"${b}":              "${a}",
		"${_c1}":            "$${a}",
		"$${a}":             "${a}",
		"$$${a}":            "$${a}",
		"$${":               "${",
		"$ $$ $a $(b) {a}":  "$ $$ $a $(b) {a}",
		"cost: 5$":          "cost: 5$",
		"$${x":              "${x",
	} {
		parsed, err := Parse(template)
		require.NoError(t, err, template)
		assert.Equal(t, want, parsed.Render(values), template)
		assert.Equal(t, len(want), parsed.Size(values), template)
	}
}

func TestTemplateNamesAreSortedAndUnique(t *testing.T) {
	parsed, err := Parse("${b} ${a} $${c} ${b}")
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, parsed.Names())
}

func TestTemplateRefusesBadPlaceholdersWithTheirPlace(t *testing.T) {
	for template, place := range map[string]string{
		"${":                                 "byte 0",
		"ab ${":                              "byte 3",
		"${}":                                "byte 0",
		"x${1a}":                             "byte 1",
		"${a b}":                             "byte 0",
		"${HOME:-x}":                         "byte 0",
		"${é}":                               "byte 0",
		"${" + strings.Repeat("a", 64) + "}": "byte 0",
	} {
		_, err := Parse(template)
		require.ErrorContains(t, err, place, template)
		require.ErrorContains(t, err, "write $${", template)
	}
}

// A few kilobytes of template can ask for gigabytes: the size must be known without making the text.
func TestTemplateSizeIsKnownBeforeRendering(t *testing.T) {
	parsed, err := Parse(strings.Repeat("${a}", 1<<16))
	require.NoError(t, err)
	assert.Equal(t, (1<<16)*(1<<20), parsed.Size(map[string]string{"a": strings.Repeat("x", 1<<20)}))
}

// placeholders is the grammar in one expression, another way than Parse goes: at each place, first the escape, then a placeholder.
var placeholders = regexp.MustCompile(`\$\$\{|\$\{[A-Za-z_][A-Za-z0-9_]{0,62}\}`)

// Whatever the template and the values are: a value is never looked at again, what is escaped comes out as it is written, and the
// size is known beforehand. The seeds in testdata are what broke, or would break, a naive implementation.
func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "${a}", "$${a}", "$$${a}", "${", "}${a}{", "${a}${b}", "$"} {
		f.Add(seed, "value", "${a}")
	}
	f.Fuzz(func(t *testing.T, text, a, b string) {
		// A text becomes the template of itself by escaping.
		literal, err := Parse(strings.ReplaceAll(text, "${", "$${"))
		require.NoError(t, err)
		require.Empty(t, literal.Names())
		require.Equal(t, text, literal.Render(map[string]string{"a": a, "b": b}))

		parsed, err := Parse(text)
		if err != nil {
			require.ErrorContains(t, err, "placeholder at byte ")
			return
		}
		values := map[string]string{"a": a, "b": b}
		rendered := parsed.Render(values)
		require.Equal(t, len(rendered), parsed.Size(values))
		used, names := 0, map[string]bool{}
		require.Equal(t, placeholders.ReplaceAllStringFunc(text, func(found string) string {
			if found == "$${" {
				return "${"
			}
			name := found[2 : len(found)-1]
			names[name] = true
			used += len(values[name])
			return values[name]
		}), rendered)
		require.Equal(t, slices.Sorted(maps.Keys(names)), parsed.Names())
		require.LessOrEqual(t, len(rendered), len(text)+used, "nothing grows but by its values")
	})
}
