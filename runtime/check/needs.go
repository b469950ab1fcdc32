package check

import (
	"os"
	"path/filepath"
	"strings"
)

// certificates are where systems keep the certificates of authorities, as Go, OpenSSL and rustls look for them.
var certificates = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/pki/tls/cacert.pem",
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", "/etc/ssl/cert.pem",
}

// Needs judges what agents that are known by name need besides themselves. root is where the file system begins; get reads the
// agent's environment.
func Needs(command []string, root string, get func(string) string) []Point {
	const certs, shell = "CA certificates", "/bin/sh"
	if len(command) == 0 {
		return []Point{skipped(certs, "the agent is somebody else's server"), skipped(shell, "the agent is somebody else's server")}
	}
	goose := filepath.Base(command[0]) == "goose"
	points := []Point{}
	switch file := found(root, append(strings.Fields(get("SSL_CERT_FILE")), certificates...)); {
	case file != "":
		points = append(points, ok(certs, "%s", file))
	case goose:
		points = append(points, failed(certs, "none: goose opens a session without them, and then every prompt fails with \"Provider not set\", even where the provider is http",
			"install them (Debian: ca-certificates), or set SSL_CERT_FILE"))
	default:
		points = append(points, warning(certs, "none: an agent that calls its provider over TLS fails", "install them (Debian: ca-certificates), or set SSL_CERT_FILE"))
	}
	switch {
	case !goose:
		return append(points, skipped(shell, "nothing is known of this agent's tools"))
	case found(root, []string{shell}) == "":
		return append(points, failed(shell, "is not there: goose's shell tool needs it", "install a shell, such as busybox"))
	default:
		return append(points, ok(shell, "is there"))
	}
}

// found is the first of the files that is there and not empty.
func found(root string, files []string) string {
	for _, file := range files {
		if info, err := os.Stat(filepath.Join(root, file)); err == nil && info.Size() > 0 {
			return file
		}
	}
	return ""
}
