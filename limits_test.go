package hearth

import (
	"errors"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bounded are the packages of which every number has to be listed in SPEC.md, Limits or Appendix, by the name that it has there.
var bounded = map[string]string{
	"pkg/delivery/v1alpha1": "wire", "challenge": "challenge", "delivery": "delivery", "delivery/client": "client",
	"controller/page": "page", "delivery/journal": "journal", "delivery/kontext": "kontext", "delivery/server": "server", "internal/gate": "gate", "internal/tracing": "tracing",
	"cmd/harness": "harness", "runtime/attach": "attach", "runtime/check": "check", "runtime/dial": "dial", "runtime/metrics": "metrics", "runtime/endpoint": "endpoint", "runtime/process": "process",
	"runtime/router": "router", "runtime/standing": "standing", "runtime/transcript": "transcript", "runtime/turn": "turn",
}

// noBounds are numbers of those packages that bound nothing: ports, codes, places in a file's format, sizes of keys.
var noBounds = regexp.MustCompile(`^(wire\.DefaultPort|kontext\.DefaultPort|metrics\.DefaultPort|challenge\.(Length|keyBytes)|process\.(initPID|zombie)|harness\.exit\w+|router\.code\w+|attach\.[Cc]ode\w+|` +
	`journal\.(pageHeaderBytes|metaBytes|metaPageSizeAt|metaTxAt|metaSumAt|sealBytes)|gate\.(frameHeader|typeHeaders)|standing\.(dirMode|fileMode)|transcript\.(dirMode|fileMode)|check\.probeMode)$`)

var limitRow = regexp.MustCompile("^\\| `([a-z]+\\.[A-Za-z0-9]+)` \\| ([^|]+) \\|")

// SPEC.md, Limits and Appendix: each row is a constant of the code with that value, and each bound of the code has a row.
func TestLimitsAreThoseOfTheCode(t *testing.T) {
	code := map[string]bound{}
	s := &source{fset: token.NewFileSet(), done: map[string]*types.Package{}}
	for dir, name := range bounded {
		for constant, b := range s.constants(t, dir) {
			if full := name + "." + constant; !noBounds.MatchString(full) {
				code[full] = b
			}
		}
	}
	spec, err := os.ReadFile("SPEC.md")
	require.NoError(t, err)
	listed := map[string]bool{}
	for line := range strings.Lines(string(spec)) {
		m := limitRow.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		assert.False(t, listed[m[1]], "%s is listed twice", m[1])
		listed[m[1]] = true
		b, known := code[m[1]]
		if !assert.True(t, known, "SPEC.md lists %s, and there is no such constant", m[1]) {
			continue
		}
		value, err := b.read(m[2])
		require.NoError(t, err, m[1])
		assert.Equal(t, b.value, value, "%s is %s in SPEC.md", m[1], m[2])
	}
	for name, b := range code {
		assert.True(t, listed[name], "SPEC.md, Limits and Appendix, have no row for %s (%d): what does it bound, and what happens beyond it?", name, b.value)
	}
}

// bound is a constant: a number, or nanoseconds.
type bound struct {
	value    int64
	duration bool
	seconds  bool // a number that is counted in seconds
}

var (
	sizes     = map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20}
	durations = map[string]time.Duration{"ms": time.Millisecond, "s": time.Second, "min": time.Minute, "h": time.Hour}
	powers    = map[string]int64{"2³⁰": 1 << 30, "10⁹": 1_000_000_000}
)

// read understands a value as it is written for people.
func (b bound) read(text string) (int64, error) {
	number, unit, _ := strings.Cut(strings.TrimSpace(text), " ")
	if n, ok := powers[number]; ok && unit == "" {
		return n, nil
	}
	n, err := strconv.ParseInt(strings.ReplaceAll(number, ",", ""), 10, 64)
	d, isTime := durations[unit]
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q: expected a number", text)
	case b.duration && isTime:
		return n * int64(d), nil
	case b.seconds && unit == "s", !b.duration && unit == "":
		return n, nil
	case !b.duration && sizes[unit] != 0:
		return n * sizes[unit], nil
	default:
		return 0, fmt.Errorf("%q: expected a number, or one with KiB, MiB, ms, s, min or h", text)
	}
}

// source type-checks our packages far enough to know their constants; of others only package time is known.
type source struct {
	fset *token.FileSet
	done map[string]*types.Package
}

func (s *source) constants(t *testing.T, dir string) map[string]bound {
	t.Helper()
	pkg, err := s.Import(module + "/" + dir)
	require.NoError(t, err)
	out := map[string]bound{}
	for _, name := range pkg.Scope().Names() {
		c, ok := pkg.Scope().Lookup(name).(*types.Const)
		if !ok {
			continue
		}
		basic, ok := c.Type().Underlying().(*types.Basic)
		require.True(t, ok && basic.Kind() != types.Invalid, "%s.%s cannot be evaluated", dir, name)
		if basic.Info()&types.IsNumeric == 0 || isEnum(pkg, c) {
			continue
		}
		value, exact := constant.Int64Val(constant.ToInt(c.Val()))
		require.True(t, exact, "%s.%s", dir, name)
		out[name] = bound{value: value, duration: c.Type().String() == "time.Duration", seconds: strings.HasSuffix(name, "Seconds")}
	}
	return out
}

// isEnum tells whether a constant is one of a type of its own package.
func isEnum(pkg *types.Package, c *types.Const) bool {
	named, ok := c.Type().(*types.Named)
	return ok && named.Obj().Pkg() == pkg
}

// Import implements types.Importer.
func (s *source) Import(name string) (*types.Package, error) {
	if pkg := s.done[name]; pkg != nil {
		return pkg, nil
	}
	switch {
	case name == "time":
		s.done[name] = timePackage()
	case strings.HasPrefix(name, module+"/"):
		pkg, err := s.check(name)
		if err != nil {
			return nil, err
		}
		s.done[name] = pkg
	default:
		return nil, errors.New("not ours")
	}
	return s.done[name], nil
}

func (s *source) check(name string) (*types.Package, error) {
	dir := strings.TrimPrefix(name, module+"/")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("sources of %s: %w", name, err)
	}
	entries = slices.DeleteFunc(entries, func(e fs.DirEntry) bool {
		return !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go")
	})
	var files []*ast.File
	for _, e := range entries {
		file, err := parser.ParseFile(s.fset, path.Join(dir, e.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, fmt.Errorf("parse: %w", err)
		}
		files = append(files, file)
	}
	// What is not ours stays unknown, and no constant that matters depends on it; constants looks for those that do.
	config := types.Config{Importer: s, IgnoreFuncBodies: true, Error: func(error) {}}
	pkg, _ := config.Check(name, s.fset, files, nil)
	return pkg, nil
}

// timePackage is as much of package time as constants need.
func timePackage() *types.Package {
	pkg := types.NewPackage("time", "time")
	duration := types.NewTypeName(token.NoPos, pkg, "Duration", nil)
	types.NewNamed(duration, types.Typ[types.Int64], nil)
	pkg.Scope().Insert(duration)
	for name, d := range map[string]time.Duration{
		"Nanosecond": time.Nanosecond, "Microsecond": time.Microsecond, "Millisecond": time.Millisecond,
		"Second": time.Second, "Minute": time.Minute, "Hour": time.Hour,
	} {
		pkg.Scope().Insert(types.NewConst(token.NoPos, pkg, name, duration.Type(), constant.MakeInt64(int64(d))))
	}
	pkg.MarkComplete()
	return pkg
}
