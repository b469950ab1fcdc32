package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/google/licensecheck"
)

// module is one module that programs link, and where its linked packages lie.
type module struct {
	path, version, dir string
	packages           []string // directories, sorted
}

func (m module) name() string { return strings.TrimSuffix(m.path+"@"+m.version, "@") }

// modules asks the go command what programs link. Our own modules are under our own licence, and not in it; the standard library is.
func modules(dir string, programs []string, platform string) ([]module, error) {
	cmd := exec.Command("go", append([]string{"list", "-deps", "-json=Dir,Root,ImportPath,Standard,Module"}, programs...)...) //nolint:gosec,noctx // the project's own packages
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	if system, arch, found := strings.Cut(platform, "/"); found {
		cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0")
	}
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list in %s: %w", dir, err)
	}
	type source struct {
		Path, Version, Dir string
		Main               bool
		Replace            *source
	}
	byDir := map[string]*module{}
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Dir, Root, ImportPath string
			Standard              bool
			Module                *source
		}
		err := decoder.Decode(&p)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("go list in %s: %w", dir, err)
		}
		from := p.Module
		switch {
		case p.Standard:
			name, version := vendored(p.ImportPath, p.Root)
			if byDir[p.Root] == nil {
				byDir[p.Root] = &module{path: name, version: version, dir: p.Root}
			}
			if name != standard {
				byDir[p.Root].packages = append(byDir[p.Root].packages, p.Dir)
			}
			continue
		case from == nil:
			continue
		case from.Replace != nil:
			from = from.Replace
		}
		if from.Main || from.Version == "" && p.Module.Replace != nil {
			continue // ours
		}
		if byDir[from.Dir] == nil {
			byDir[from.Dir] = &module{path: from.Path, version: from.Version, dir: from.Dir}
		}
		byDir[from.Dir].packages = append(byDir[from.Dir].packages, p.Dir)
	}
	all := []module{}
	for _, m := range byDir {
		slices.Sort(m.packages)
		all = append(all, *m)
	}
	return all, nil
}

// standard is what the standard library is called here.
const standard = "std"

// vendored tells of a package of the standard library where it comes from: the library itself, or a module that the library has in
// vendor/ and that the go command took from the module cache, because the program uses it, too.
func vendored(pkg, root string) (name, version string) {
	dir, version, cached := strings.Cut(filepath.ToSlash(root), "@")
	for name = strings.TrimPrefix(pkg, "vendor/"); cached && name != "."; name = path.Dir(name) {
		if strings.HasSuffix(dir, "/"+name) {
			return name, version
		}
	}
	return standard, ""
}

// licenceFile matches the names of licence files. LICENSE.docs is for documentation, which is not linked.
var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)([-._].*)?$`)

// noticeFile matches what Apache-2.0 (section 4d) wants handed on beside the licence.
var noticeFile = regexp.MustCompile(`(?i)^notice([-._].*)?$`)

// check finds the licence files of the module and of the directories of its linked packages, and returns what they are and say.
func (m module) check() (ids, texts []string, err error) {
	dirs := []string{m.dir}
	for _, p := range m.packages {
		for d := p; d != m.dir && strings.HasPrefix(d, m.dir); d = filepath.Dir(d) {
			dirs = append(dirs, d)
		}
	}
	slices.Sort(dirs)
	var refused []error
	for _, d := range slices.Compact(dirs) {
		entries, err := os.ReadDir(d)
		if err != nil {
			return nil, nil, err
		}
		for _, e := range entries {
			notice := noticeFile.MatchString(e.Name())
			if e.IsDir() || !notice && !licenceFile.MatchString(e.Name()) || slices.Contains([]string{".go", ".docs"}, filepath.Ext(e.Name())) {
				continue
			}
			text, err := os.ReadFile(filepath.Join(d, e.Name())) //nolint:gosec // a licence of a dependency
			if err != nil {
				return nil, nil, err
			}
			texts = append(texts, string(text))
			if notice {
				continue
			}
			found, err := classify(text)
			if err != nil {
				file, _ := filepath.Rel(m.dir, filepath.Join(d, e.Name()))
				refused = append(refused, fmt.Errorf("%s: %w", file, err))
			}
			ids = append(ids, found...)
		}
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 && len(refused) == 0 {
		return nil, nil, errors.New("no licence file")
	}
	return ids, texts, errors.Join(refused...)
}

// classify names the licences of a text; an error when it is not all known and allowed.
func classify(text []byte) ([]string, error) {
	c := licensecheck.Scan(text)
	var ids, bad []string
	for _, match := range c.Match {
		id := match.ID
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
		if !slices.Contains(allowed, id) && !slices.Contains(bad, id) {
			bad = append(bad, id)
		}
	}
	switch {
	case len(bad) > 0:
		return ids, fmt.Errorf("%s", strings.Join(bad, ", "))
	case rider.Match(beside(text, c.Match)):
		return ids, fmt.Errorf("%s with a condition of its own beside it", strings.Join(ids, ", "))
	case len(ids) == 0 || c.Percent < minCoverage:
		return ids, fmt.Errorf("unknown text (%.0f%% of it is a licence we know)", c.Percent)
	}
	return ids, nil
}

// beside is what no licence covers: copyright lines, mostly.
func beside(text []byte, known []licensecheck.Match) []byte {
	var rest []byte
	from := 0
	for _, m := range known {
		if m.Start > from {
			rest = append(append(rest, text[from:m.Start]...), '\n')
		}
		from = max(from, m.End)
	}
	return append(rest, text[from:]...)
}
