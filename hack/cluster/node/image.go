package node

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
)

// nobody is who the executables run as.
const nobody = "65535:65535"

// Image returns what `docker save` would for an image called ref that holds one static executable, which it runs.
func Image(ref, executable string, binary []byte) ([]byte, error) {
	layer, err := archive(tarFile{executable, 0o755, binary})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{"/" + executable}, "User": nobody},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + digest(layer)}},
	})
	if err != nil {
		return nil, fmt.Errorf("encode image %s: %w", ref, err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": digest(config) + ".json", "RepoTags": []string{ref}, "Layers": []string{digest(layer) + ".tar"},
	}})
	if err != nil {
		return nil, fmt.Errorf("encode image %s: %w", ref, err)
	}
	return archive(tarFile{"manifest.json", 0o644, manifest}, tarFile{digest(config) + ".json", 0o644, config}, tarFile{digest(layer) + ".tar", 0o644, layer})
}

type tarFile struct {
	name    string
	mode    int64
	content []byte
}

func archive(files ...tarFile) ([]byte, error) {
	var out bytes.Buffer
	writer := tar.NewWriter(&out)
	for _, file := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: file.name, Mode: file.mode, Size: int64(len(file.content))}
		if err := writer.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("archive %s: %w", file.name, err)
		}
		if _, err := writer.Write(file.content); err != nil {
			return nil, fmt.Errorf("archive %s: %w", file.name, err)
		}
	}
	if err := writer.Close(); err != nil {
		return nil, fmt.Errorf("archive: %w", err)
	}
	return out.Bytes(), nil
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// writePauseImage writes the archive that Load takes.
func (p Place) writePauseImage(binary string) (string, error) {
	content, err := os.ReadFile(binary) // #nosec G304 -- what we built
	if err != nil {
		return "", fmt.Errorf("read the pause binary: %w", err)
	}
	image, err := Image(pauseImage, "pause", content)
	if err != nil {
		return "", err
	}
	path := p.path("pause.tar")
	return path, writeSecret(path, image)
}
