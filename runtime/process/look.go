package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ErrNotFound says that the agent command does not exist or may not be executed.
var ErrNotFound = errors.New("agent command not found")

// Look finds the program of a command in PATH of env, as a shell would.
func Look(command, env []string) (string, error) {
	if len(command) == 0 || command[0] == "" {
		return "", fmt.Errorf("%w: no command was given", ErrNotFound)
	}
	name := command[0]
	if strings.Contains(name, "/") {
		if err := executable(name); err != nil {
			return "", fmt.Errorf("%w: %q: %w", ErrNotFound, name, err)
		}
		return filepath.Abs(name) // the agent may be started in another directory
	}
	path := ""
	for _, v := range env {
		if rest, ok := strings.CutPrefix(v, "PATH="); ok {
			path = rest
		}
	}
	for _, dir := range filepath.SplitList(path) {
		if file := filepath.Join(dir, name); filepath.IsAbs(file) && executable(file) == nil {
			return file, nil
		}
	}
	return "", fmt.Errorf("%w: %q is not in PATH (%s)", ErrNotFound, name, path)
}

func executable(file string) error {
	info, err := os.Stat(file)
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			return pe.Err
		}
		return err
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return errors.New("is not an executable file")
	}
	return nil
}
