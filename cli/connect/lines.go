package connect

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hearthdev/hearth/cli/acp"
)

// MaxMessage bounds one message, either way.
const MaxMessage = 64 << 20

var errTooLong = fmt.Errorf("a line is longer than %d bytes", MaxMessage)

// readLines puts each line into a queue and closes it at the end. What is too long to be read is answered.
func readLines(ctx context.Context, from io.Reader, to *queue, answer func([]byte) error) error {
	defer to.close()
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := readLine(r)
		if errors.Is(err, errTooLong) {
			if err := answer(failure(nil, codeBatch, err.Error())); err != nil {
				return err
			}
			continue
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if err := to.put(ctx, line); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read stdin: %w", err)
		}
	}
}

// readLine reads up to a newline, or to the end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	tooLong := false
	for {
		part, err := r.ReadSlice('\n')
		if tooLong = tooLong || len(line)+len(part) > MaxMessage; !tooLong {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case tooLong && (err == nil || errors.Is(err, io.EOF)):
			return nil, errTooLong
		default:
			return line, err
		}
	}
}

// writeLines writes each message of a queue as one line.
func writeLines(ctx context.Context, from *queue, to io.Writer) error {
	for {
		message, err := from.take(ctx)
		if errors.Is(err, errEnded) {
			return nil
		}
		if err != nil {
			return err
		}
		_, err = to.Write(append(oneLine(message), '\n'))
		from.done()
		if err != nil {
			return fmt.Errorf("write stdout: %w", err)
		}
	}
}

// oneLine is a message without newlines, which in JSON stand between values only.
func oneLine(message []byte) []byte {
	if !bytes.ContainsAny(message, "\r\n") {
		return message
	}
	compact := jsontext.Value(bytes.Clone(message))
	if compact.Compact(acp.Lenient...) == nil {
		return compact
	}
	return bytes.Join(bytes.FieldsFunc(message, func(r rune) bool { return r == '\n' || r == '\r' }), []byte(" "))
}
