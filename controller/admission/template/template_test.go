package template

import (
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

func FuzzTemplate(f *testing.F) {
	for _, seed := range []string{"", "${a}", "$${a}", "$$${a}", "${", "}${a}{", "${a}${b}", "$"} {
		f.Add(seed, "value", "${a}")
	}
	f.Fuzz(func(t *testing.T, text, a, b string) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		values := map[string]string{"a": a, "b": b}
		rendered := parsed.Render(values)
		assert.Len(t, rendered, parsed.Size(values))
		// Escaping a text makes a template that renders to that text, whatever is in it.
		literal, err := Parse(strings.ReplaceAll(text, "${", "$${"))
		require.NoError(t, err)
		if !strings.Contains(text, "$${") {
			assert.Equal(t, text, literal.Render(values))
		}
		if len(parsed.Names()) == 0 && !strings.Contains(text, "$${") {
			assert.Equal(t, text, rendered)
		}
	})
}
