package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/hearthdev/hearth/test/bench/node"
	"github.com/hearthdev/hearth/test/bench/procs"
	"github.com/hearthdev/hearth/test/bench/rig"
)

const (
	// registry is where the API server keeps AgentRuns in etcd.
	registry = "/registry/hearth.dev/agentruns/" + namespace + "/"
	// writers is how many records are written at once. Each is a write of its own: the API server's watch tells of one change a revision.
	writers = 32
	// outputBytes is what each record has of a result.
	outputBytes = 1 << 10
	few         = 10
)

// kept is what was measured with many records.
type kept struct {
	count               int
	empty, loaded       latency
	before, after       usage
	again               restarted
	database, apiServer int64
}

// fillUp measures a cluster with a few targets, without records and with many. They are copies of one that came about by itself, with other names and
// UIDs, and are put into etcd directly: by the API server, 100,000 would take the better part of an hour.
func fillUp(ctx context.Context, r *rig.Rig, count int, out io.Writer) (kept, error) {
	k := kept{count: count}
	w := &walk{rig: r, out: out, began: time.Now()}
	if err := r.Namespace(ctx, namespace); err != nil {
		return k, err
	}
	for _, step := range []struct {
		what string
		do   func() (any, error)
	}{
		{fmt.Sprintf("%d targets come up", few), func() (any, error) { return nil, w.grow(ctx, sizes{perAgent: few, each: 1}, few) }},
		{"short runs", func() (any, error) { return keep(&k.empty)(probe(ctx, r, w.agents, "before")) }},
		{"the controller", func() (any, error) { return keep(&k.before)(held(ctx, r)) }},
		{fmt.Sprintf("%d records", count), func() (any, error) { return nil, w.copies(ctx, count) }},
		{"the controller with them", func() (any, error) { return keep(&k.after)(held(ctx, r)) }},
		{"short runs", func() (any, error) { return keep(&k.loaded)(probe(ctx, r, w.agents, "after")) }},
		{"controller killed and started again", func() (any, error) { return keep(&k.again)(restart(ctx, r, few, 0)) }},
	} {
		got, err := step.do()
		if err != nil {
			return k, fmt.Errorf("%s: %w", step.what, err)
		}
		w.say(step.what, got)
	}
	var err error
	if k.apiServer, err = procs.Resident(r.APIServer); err != nil {
		return k, err
	}
	text, err := fetch(ctx, r.EtcdURL()+"/metrics")
	if err != nil {
		return k, err
	}
	k.database = int64(parse(text).sum("etcd_mvcc_db_total_size_in_bytes"))
	return k, nil
}

// copies makes the records, and waits until the controller knows all of them.
func (w *walk) copies(ctx context.Context, count int) error {
	const original = "original"
	if err := w.rig.Node.Reset(ctx); err != nil {
		return err
	}
	if _, err := createOne(ctx, w.rig, w.agents[0], original, fmt.Sprintf("%s%d", node.Give, outputBytes)); err != nil {
		return err
	}
	if err := awaited(ctx, w.rig, node.Counts{Recorded: 1}); err != nil {
		return err
	}
	var found struct {
		Kvs []struct{ Value []byte }
	}
	if err := w.etcd(ctx, "range", map[string]any{"key": []byte(registry + original)}, &found); err != nil {
		return err
	}
	if len(found.Kvs) != 1 {
		return fmt.Errorf("expected a record at %s%s, there are %d", registry, original, len(found.Kvs))
	}
	known, err := scrape(ctx, w.rig)
	if err != nil {
		return err
	}
	group, within := errgroup.WithContext(ctx)
	group.SetLimit(writers)
	for i := range count {
		group.Go(func() error { return w.copy(within, found.Kvs[0].Value, fmt.Sprintf("record-n%06d", i)) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	seen := func(m metrics) float64 {
		return m.sum("controller_runtime_reconcile_total", `controller="deliver-run"`)
	}
	return until(ctx, w.rig, patience, "the controller to know all records", func(m metrics) bool {
		return seen(m) >= seen(known)+float64(count) && m.sum("workqueue_depth") == 0 && m.sum("controller_runtime_active_workers") == 0
	})
}

// copy writes a copy of a record under another name.
func (w *walk) copy(ctx context.Context, record []byte, name string) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(record, &object); err != nil {
		return fmt.Errorf("read a record: %w", err)
	}
	var metadata map[string]any
	if err := json.Unmarshal(object["metadata"], &metadata); err != nil {
		return fmt.Errorf("read a record: %w", err)
	}
	metadata["name"], metadata["uid"] = name, uuid.NewUUID()
	text, err := json.Marshal(metadata)
	if err != nil {
		return err
	}
	object["metadata"] = text
	value, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return w.etcd(ctx, "put", map[string][]byte{"key": []byte(registry + name), "value": value}, nil)
}

// gateway keeps a connection for each writer.
var gateway = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: writers}}

// etcd calls etcd by its gateway of JSON over HTTP, in which bytes are base64, as encoding/json has them.
func (w *walk) etcd(ctx context.Context, call string, body, into any) error {
	text, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, w.rig.EtcdURL()+"/v3/kv/"+call, bytes.NewReader(text))
	if err != nil {
		return err
	}
	response, err := gateway.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxText))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("etcd %s: %s: %.512s", call, response.Status, answer)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}
