package cli

import (
	"context"
	"io"
	"maps"
	"os"
	"strings"
	"unicode/utf8"

	"sigs.k8s.io/yaml"

	hearthv1 "github.com/hearthdev/hearth/api/v1alpha1"
	"github.com/hearthdev/hearth/cli/kube"
)

// maxFile bounds a file of parameters; what of it would be delivered is less.
const maxFile = 4 * hearthv1.MaxGoalBytes

// parameters are what the command line says of a run's parameters.
type parameters struct {
	given []string // NAME=VALUE
	file  string
}

// read gives the parameters by their names, or the context's error as soon as that is over. Values are never repeated in errors: they
// may be secret.
func (p parameters) read(ctx context.Context, stdin io.Reader) (map[string]string, error) {
	in := &source{stdin: stdin}
	values := map[string]string{}
	if p.file != "" {
		text, err := in.read(ctx, "-f", p.file, maxFile)
		if err != nil {
			return nil, err
		}
		if values, err = decode(p.file, text); err != nil {
			return nil, err
		}
	}
	given := map[string]string{}
	for _, assignment := range p.given {
		name, value, ok := strings.Cut(assignment, "=")
		if !ok || name == "" {
			return nil, kube.Usage("-p: expected NAME=VALUE, NAME=@FILE or NAME=-, got %.32q", name)
		}
		if _, twice := given[name]; twice {
			return nil, kube.Usage("-p %.63s: expected each parameter once", name)
		}
		var err error
		if given[name], err = in.value(ctx, "-p "+name, value); err != nil {
			return nil, err
		}
	}
	maps.Copy(values, given)
	for name, value := range values {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			return nil, kube.Usage("parameter %.63q: expected text in UTF-8", name)
		}
	}
	if len(values) == 0 {
		return nil, nil //nolint:nilnil // none were given
	}
	return values, nil
}

// decode reads a file of parameters. What is no text is refused, for 1.10 and no would not stay what they are.
func decode(file string, text string) (map[string]string, error) {
	var all map[string]any
	if err := yaml.UnmarshalStrict([]byte(text), &all); err != nil {
		return nil, kube.Usage("-f %s: expected parameters by their names, as in \"change: PR 17\": it is no YAML mapping, or has a name twice", file)
	}
	values := map[string]string{}
	for name, value := range all {
		s, ok := value.(string)
		if !ok {
			return nil, kube.Usage("-f %s: %.63s: expected text, got a %s: put it in quotes", file, name, kindOf(value))
		}
		values[name] = s
	}
	return values, nil
}

func kindOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case map[string]any:
		return "mapping"
	case []any:
		return "list"
	default:
		return "number"
	}
}

// source reads values; stdin can be read once.
type source struct {
	stdin io.Reader
	by    string
}

func (s *source) value(ctx context.Context, flag, value string) (string, error) {
	switch {
	case value == "-":
		return s.read(ctx, flag, value, hearthv1.MaxGoalBytes)
	case strings.HasPrefix(value, "@@"):
		return value[1:], nil
	case strings.HasPrefix(value, "@"):
		return s.read(ctx, flag, value[1:], hearthv1.MaxGoalBytes)
	default:
		return value, nil
	}
}

func (s *source) read(ctx context.Context, flag, file string, most int) (string, error) {
	open := func() (io.ReadCloser, error) { return os.Open(file) } //nolint:gosec // the person's own file
	if file == "-" {
		if s.by != "" {
			return "", kube.Usage("%s: stdin is read by %s already", flag, s.by)
		}
		s.by = flag
		open = func() (io.ReadCloser, error) { return io.NopCloser(s.stdin), nil }
	}
	text, err := readAll(ctx, open, int64(most)+1)
	switch {
	case ctx.Err() != nil: // who wrote it may have been interrupted with us, so it may be half of it
		return "", ctx.Err()
	case err != nil:
		return "", kube.Usage("%s: %w", flag, err)
	case len(text) > most:
		return "", kube.Usage("%s: expected at most %d bytes", flag, most)
	}
	return string(text), nil
}

// readAll reads up to a number of bytes. A terminal or a pipe may give nothing for ever, so nobody waits for it whose context is over.
func readAll(ctx context.Context, open func() (io.ReadCloser, error), most int64) ([]byte, error) {
	type content struct {
		text []byte
		err  error
	}
	done := make(chan content, 1)
	go func() {
		in, err := open()
		if err != nil {
			done <- content{err: err}
			return
		}
		defer func() { _ = in.Close() }()
		text, err := io.ReadAll(io.LimitReader(in, most))
		done <- content{text, err}
	}()
	select {
	case c := <-done:
		return c.text, c.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
