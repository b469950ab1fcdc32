package v1alpha1

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strconv"
)

// Digest identifies the content of one attempt: SHA-256 over length-prefixed parts, base64url without padding
// (SPEC.md, Digest). A state carries it so that a reader can compare what ran with what was asked for.
func Digest(runUID string, attempt int64, goal string) string {
	h := sha256.New()
	for _, part := range []string{"hearth-digest-v1", runUID, strconv.FormatInt(attempt, 10), goal} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part))) //nolint:gosec // bounded by MaxBodyBytes
		h.Write(length[:])
		h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil))
}
