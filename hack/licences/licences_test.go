package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const (
	mit = `MIT License

Copyright (c) 2026 Somebody

Permission is hereby granted, free of charge, to any person obtaining a copy of this software and associated documentation files (the "Software"), to deal in the Software without restriction, including without limitation the rights to use, copy, modify, merge, publish, distribute, sublicense, and/or sell copies of the Software, and to permit persons to whom the Software is furnished to do so, subject to the following conditions:

The above copyright notice and this permission notice shall be included in all copies or substantial portions of the Software.

THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND, EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE SOFTWARE.
`
	gpl = `This program is free software: you can redistribute it and/or modify it under the terms of the GNU General Public License as published by the Free Software Foundation, either version 3 of the License, or (at your option) any later version.

This program is distributed in the hope that it will be useful, but WITHOUT ANY WARRANTY; without even the implied warranty of MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE. See the GNU General Public License for more details.

You should have received a copy of the GNU General Public License along with this program. If not, see <https://www.gnu.org/licenses/>.
`
)

// A module is refused for a licence that is not on the list, one nobody knows, or none; the message names the file and the licence.
func TestOnlyLicencesOnTheListPass(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		ids   []string
		says  string // "": allowed
	}{
		"allowed":                            {map[string]string{"LICENSE": mit}, []string{"MIT"}, ""},
		"forbidden":                          {map[string]string{"COPYING": gpl}, nil, "COPYING: GPL-3.0-or-later"},
		"forbidden beside an allowed one":    {map[string]string{"LICENSE": mit + "\n" + gpl}, nil, "LICENSE: GPL-3.0-or-later"},
		"forbidden in a linked package":      {map[string]string{"LICENSE": mit, "linked/licence.txt": gpl}, nil, "linked/licence.txt: GPL-3.0-or-later"},
		"forbidden above a package":          {map[string]string{"LICENSE": mit, "linked/LICENSE": gpl, "linked/deeper/x.go": ""}, nil, "linked/LICENSE: GPL"},
		"forbidden in one that is not":       {map[string]string{"LICENSE": mit, "other/LICENSE": gpl}, []string{"MIT"}, ""},
		"for documentation":                  {map[string]string{"LICENSE": mit, "LICENSE.docs": gpl}, []string{"MIT"}, ""},
		"with a notice, which is no licence": {map[string]string{"LICENSE": mit, "NOTICE": "made by Somebody"}, []string{"MIT"}, ""},
		"unknown":                            {map[string]string{"LICENSE": "Do as I say."}, nil, "LICENSE: unknown text"},
		"mostly unknown":                     {map[string]string{"LICENSE": mit + string(make([]byte, 1)) + longText()}, nil, "LICENSE: unknown text"},
		"with a rider above it":              {map[string]string{"LICENSE": "Commons Clause License Condition v1.0\n\n" + mit}, nil, "MIT with a condition of its own"},
		"with a rider below it":              {map[string]string{"LICENSE": mit + "\nThis software may not be used for profit.\n"}, nil, "MIT with a condition of its own"},
		"none":                               {map[string]string{"README": mit, "license.go": "package x"}, nil, "no licence file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			m := module{path: "example.com/m", version: "v1", dir: dir, packages: []string{filepath.Join(dir, "linked", "deeper")}}
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "linked", "deeper"), 0o750))
			for file, text := range c.files {
				require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o750))
				require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
			}
			ids, texts, err := m.check()
			if c.says != "" {
				require.ErrorContains(t, err, c.says)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.ids, ids)
			assert.Contains(t, texts, mit)
			if notice, has := c.files["NOTICE"]; has {
				assert.Contains(t, texts, notice)
			}
		})
	}
}

func longText() string {
	text := ""
	for range 300 {
		text += "whosoever reads this shall hop on one leg and "
	}
	return text
}

// What this tool itself links is found: the standard library and the classifier, without itself.
func TestModulesFindsWhatIsLinked(t *testing.T) {
	found, err := modules(".", []string{"."}, "darwin/arm64")
	require.NoError(t, err)
	var paths []string
	for _, m := range found {
		paths = append(paths, m.path)
		assert.NotEmpty(t, m.dir)
	}
	assert.ElementsMatch(t, []string{"std", "github.com/google/licensecheck"}, paths)
	var out bytes.Buffer
	require.NoError(t, run([]string{".=."}, "", false, &out))
	assert.Equal(t, "licences: 2 modules linked: BSD-3-Clause 2\n", out.String())
	out.Reset()
	require.NoError(t, run([]string{".=."}, "", true, &out))
	var told []notice
	require.NoError(t, json.Unmarshal(out.Bytes(), &told))
	require.Len(t, told, 2)
	assert.Equal(t, []string{"BSD-3-Clause"}, told[0].Licences)
	assert.Contains(t, told[0].Texts[0], "Redistribution")
	require.ErrorContains(t, run([]string{".=./no/such"}, "", false, &out), "go list")
	require.ErrorContains(t, run([]string{"."}, "", false, &out), "DIRECTORY=PACKAGE")
	require.Error(t, run(nil, "", false, &out))
}

// The standard library's copies of x/net and x/text are those of the module cache where a program uses these, too: they are no second
// standard library, and do not hide the modules.
func TestWhatTheStandardLibraryTakesFromModulesIsThese(t *testing.T) {
	for root, want := range map[string][2]string{
		"/go/pkg/mod/golang.org/x/net@v0.62.0": {"golang.org/x/net", "v0.62.0"},
		"/usr/local/go":                        {"std", ""},
	} {
		name, version := vendored("vendor/golang.org/x/net/http/httpguts", root)
		assert.Equal(t, want, [2]string{name, version}, root)
	}
	name, _ := vendored("net/http", "/usr/local/go")
	assert.Equal(t, "std", name)
	linked, err := modules("../..", []string{"./cmd/controller"}, "linux/amd64")
	require.NoError(t, err)
	times := map[string]int{}
	for _, m := range linked {
		times[m.path]++
	}
	assert.Equal(t, 1, times["std"])
	assert.Equal(t, 1, times["golang.org/x/net"])
}
