package build

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// hashLength keeps directory names readable; 12 hex digits are plenty for the handful of builds a cache holds.
const hashLength = 12

// Hash names a build by what goes into it: every regular file directly in dir, by name and content, and salt,
// which carries what is not in a file (flags, toolchain).
func Hash(dir string, salt ...string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", fmt.Errorf("hash sources: %w", err)
	}
	sum := sha256.New()
	for _, part := range salt {
		fmt.Fprintf(sum, "salt %d %s\n", len(part), part)
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		if err := hashFile(sum, filepath.Join(dir, entry.Name())); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:hashLength], nil
}

func hashFile(sum io.Writer, path string) error {
	content, err := os.ReadFile(path) // #nosec G304 -- the repository's own sources
	if err != nil {
		return fmt.Errorf("hash sources: %w", err)
	}
	// Lengths make the boundary between name and content part of the hash.
	fmt.Fprintf(sum, "file %d %s %d\n", len(filepath.Base(path)), filepath.Base(path), len(content))
	_, err = sum.Write(content)
	return err
}
