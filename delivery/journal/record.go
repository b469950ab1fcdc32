package journal

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"go.etcd.io/bbolt"

	wire "github.com/hearthdev/hearth/pkg/delivery/v1alpha1"
)

// The file's buckets. Every value is sealed: a checksum over key and value comes first, since bbolt itself checks only its
// two meta pages.
var (
	bucketMeta      = []byte("meta")      // id, and the counts below
	bucketAttempts  = []byte("attempts")  // key -> stored
	bucketWork      = []byte("work")      // key -> Work, until the attempt ended
	bucketEnvelopes = []byte("envelopes") // key -> wire.Envelope, until recorded and dropped
	bucketRecorded  = []byte("recorded")  // order of recording -> dropNext: whose envelope is dropped next

	keyID     = []byte("id")
	keyCounts = []byte("counts")
)

// errDamaged: the file cannot be read as a journal.
var errDamaged = errors.New("damaged")

// stored is an attempt in the file.
type stored struct {
	Attempt wire.Attempt `json:"attempt"`
	// Contract is the delivery contract that the attempt came by; absent means the wire's.
	Contract string `json:"contract,omitzero"`
	// Order is the order in which attempts were first seen, so that a queue survives a restart as it was.
	Order int64 `json:"order"`
}

// entry is the attempt as it is told.
func (s stored) entry() Entry {
	return Entry{Attempt: s.Attempt, Contract: cmp.Or(s.Contract, wire.APIVersion)}
}

// counts tell how much the file should hold, so that a lost page is noticed, and how often it was written.
type counts struct {
	Writes    int64 `json:"writes"`
	Attempts  int64 `json:"attempts"`
	Work      int64 `json:"work"`
	Envelopes int64 `json:"envelopes"`
	Recorded  int64 `json:"recorded"`
}

// Work is what running an accepted attempt takes. It is kept until the attempt ended.
type Work struct {
	Goal    string           `json:"goal"`
	Session wire.SessionMode `json:"session,omitzero"`
	Limits  wire.Limits      `json:"limits"`
	Trace   Trace            `json:"trace,omitzero"`
}

// Trace is the context that an attempt belongs to (W3C Trace Context); zero where there is none. It is kept as long as the goal is.
type Trace struct {
	Parent string `json:"parent,omitzero"`
	State  string `json:"state,omitzero"`
}

// dropNext says whose envelope may be dropped, and when it was recorded (Unix seconds).
type dropNext struct {
	Key        []byte `json:"key"`
	RecordedAt int64  `json:"recordedAt"`
}

// bytes sorts by run, then attempt: the length keeps one UID from being another's prefix.
func (k Key) bytes() []byte { return binary.BigEndian.AppendUint64(k.prefix(), uint64(k.Attempt)) } //nolint:gosec // from 1

func (k Key) prefix() []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(k.RunUID))) //nolint:gosec // at most MaxUIDBytes
	return append(b, k.RunUID...)
}

func (s stored) key() Key { return Key{RunUID: s.Attempt.Run.UID, Attempt: s.Attempt.Attempt} }

const sealBytes = 4

func checksum(key, value []byte) uint32 {
	castagnoli := crc32.MakeTable(crc32.Castagnoli) // the library's own, made once
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value)
}

// put seals and writes one value.
func put(b *bbolt.Bucket, key []byte, v any) error {
	value, err := wire.Encode(v)
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	sealed := binary.BigEndian.AppendUint32(make([]byte, 0, sealBytes+len(value)), checksum(key, value))
	if err := b.Put(key, append(sealed, value...)); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// get reads one sealed value; false when there is none.
func get(b *bbolt.Bucket, key []byte, into any) (bool, error) {
	sealed := b.Get(key)
	if sealed == nil {
		return false, nil
	}
	return true, open(key, sealed, into)
}

func open(key, sealed []byte, into any) error {
	if len(sealed) < sealBytes || binary.BigEndian.Uint32(sealed) != checksum(key, sealed[sealBytes:]) {
		return fmt.Errorf("%w: a value does not match its checksum", errDamaged)
	}
	if err := wire.DecodeAnswer(sealed[sealBytes:], into); err != nil {
		return fmt.Errorf("%w: %w", errDamaged, err)
	}
	return nil
}
