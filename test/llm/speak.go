package llm

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// hugePiece is how much of a huge answer goes out at once.
const hugePiece = 16 << 10

// say emits the text a word a piece; what directives say stands on lines of its own.
func (p *player) say(text string) error {
	if text == "" {
		return nil
	}
	if err := p.paragraph(); err != nil {
		return err
	}
	for word := range strings.SplitAfterSeq(text, " ") {
		if err := p.emit(word); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) paragraph() error {
	p.paragraphs++
	if p.paragraphs == 1 {
		return nil
	}
	return p.emit("\n")
}

func (p *player) emit(piece string) error {
	if piece == "" {
		return nil
	}
	p.bytes += len(piece)
	return p.sink.text(piece)
}

func (p *player) slow(ctx context.Context, seconds int) error {
	if err := p.paragraph(); err != nil {
		return err
	}
	for i := range seconds {
		if err := p.emit(fmt.Sprintf("word%d ", i+1)); err != nil {
			return err
		}
		select {
		case <-time.After(p.server.options.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (p *player) huge(size int) error {
	if err := p.paragraph(); err != nil {
		return err
	}
	piece := strings.Repeat("x", hugePiece)
	for size > 0 {
		n := min(size, hugePiece)
		if err := p.emit(piece[:n]); err != nil {
			return err
		}
		size -= n
	}
	return nil
}
