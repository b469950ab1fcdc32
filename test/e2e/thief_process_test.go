//go:build e2e

package e2e

import (
	"bufio"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	secretLength = 43 // 32 bytes in base64url without padding
	longRun      = 512
	lastOfSecret = "AEIMQUYcgkosw048"
	chunkBytes   = 1 << 20
	dialPatience = 5 * time.Second
	harnessPID   = "1"
)

// thief tries, as the agent's own user, everything that could give it the harness's secrets. It knows them only by their SHA-256, so that
// it neither carries nor prints one.
type thief struct {
	out    io.Writer
	wanted map[string]string // hex SHA-256 to what it is
}

// beThief is the thief's main. wanted is "name=hash,…"; the report goes to standard output.
func beThief(wanted string) int {
	t := &thief{out: os.Stdout, wanted: map[string]string{}}
	for pair := range strings.SplitSeq(wanted, ",") {
		name, hash, _ := strings.Cut(pair, "=")
		t.wanted[hash] = name
	}
	t.status()
	t.harness()
	t.processes()
	for _, dir := range []string{"/etc", "/var", "/run", "/tmp", "/home", "/root", "/shared", "/dev/shm", "/opt", "/srv", "/mnt"} {
		t.files(dir)
	}
	t.listeners()
	return 0
}

func (t *thief) say(format string, args ...any) { _, _ = fmt.Fprintf(t.out, format+"\n", args...) }

// tried reports an attempt and how it ended.
func (t *thief) tried(what string, bytes int64, err error) {
	if err != nil {
		t.say("DENIED %s: %v", what, err)
		return
	}
	t.say("READ %s: %d bytes", what, bytes)
}

// search looks for the secrets in what it is given, also where two chunks meet.
func (t *thief) search(where string, from io.Reader) (int64, error) {
	var read int64
	buffer := make([]byte, 0, chunkBytes+secretLength)
	for {
		n, err := from.Read(buffer[len(buffer):cap(buffer)])
		read += int64(n)
		buffer = buffer[:len(buffer)+n]
		if len(buffer) == cap(buffer) || err != nil {
			t.window(where, buffer)
			keep := min(len(buffer), secretLength-1)
			copy(buffer, buffer[len(buffer)-keep:])
			buffer = buffer[:keep]
		}
		if err == io.EOF { //nolint:errorlint // readers of files return it bare
			return read, nil
		}
		if err != nil {
			return read, err
		}
	}
}

// window compares each stretch of base64url that is as long as a secret. The last character of 32 bytes has two bits to spare, which are
// zero; of what is far longer than a secret, such as an encoded picture, only the beginning is compared.
func (t *thief) window(where string, text []byte) {
	run := 0
	for i, c := range text {
		if !inBase64URL[c] {
			run = 0
			continue
		}
		if run++; run < secretLength || run > longRun || strings.IndexByte(lastOfSecret, c) < 0 {
			continue
		}
		sum := sha256.Sum256(text[i+1-secretLength : i+1])
		if name := t.wanted[hex.EncodeToString(sum[:])]; name != "" {
			t.say("FOUND %s in %s", name, where)
		}
	}
}

var inBase64URL = func() (in [256]bool) {
	for _, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") {
		in[c] = true
	}
	return in
}()

func (t *thief) file(path string) {
	file, err := os.Open(path) // #nosec G304 -- that is what it is for
	if err != nil {
		t.tried(path, 0, err)
		return
	}
	defer func() { _ = file.Close() }()
	n, err := t.search(path, file)
	t.tried(path, n, err)
}

// files searches what is on disk below a directory.
func (t *thief) files(dir string) {
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			t.tried(path, 0, err)
		case entry.Type().IsRegular() && filepath.Base(path) != "thief":
			t.file(path)
		}
		return nil
	})
}

// status is what the kernel says of this process.
func (t *thief) status() {
	content, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.tried("/proc/self/status", 0, err)
	}
	for line := range strings.Lines(string(content)) {
		for _, name := range []string{"Uid:", "NoNewPrivs:", "Seccomp:", "CapEff:", "CapPrm:", "CapBnd:"} {
			if strings.HasPrefix(line, name) {
				t.say("STATUS %s", strings.Join(strings.Fields(line)[:2], " "))
			}
		}
	}
	for _, path := range []string{"/x", "/etc/x", "/usr/bin/x", "/harness"} {
		file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600) // #nosec G304 -- that is what it is for
		if err == nil {
			_ = file.Close()
		}
		t.tried("write "+path, 0, err)
	}
	_, err = os.Stat("/var/run/secrets/kubernetes.io/serviceaccount/token")
	t.tried("service account", 0, err)
}

// harness goes for PID 1, which has the secrets in its memory and had them in its environment.
func (t *thief) harness() {
	for _, name := range []string{"environ", "maps", "mem", "smaps", "auxv", "stack", "syscall", "task/1/environ", "task/1/mem", "root/etc/passwd"} {
		t.file("/proc/" + harnessPID + "/" + name)
	}
	for _, name := range []string{"fd", "map_files", "root", "cwd", "task/1/fd"} {
		_, err := os.ReadDir("/proc/" + harnessPID + "/" + name)
		t.tried("list /proc/1/"+name, 0, err)
	}
	t.tried("ptrace attach 1", 0, attach())
	var local [1]byte
	n, err := unix.ProcessVMReadv(1, []unix.Iovec{{Base: &local[0], Len: 1}}, []unix.RemoteIovec{{Base: 0x400000, Len: 1}}, 0)
	t.tried("process_vm_readv 1", int64(n), err)
	pidfd, err := unix.PidfdOpen(1, 0)
	if err == nil {
		for fd := range 16 {
			_, err = unix.PidfdGetfd(pidfd, fd, 0)
			t.tried("pidfd_getfd 1 "+strconv.Itoa(fd), 0, err)
		}
	}
	t.tried("pidfd_open 1", 0, err)
}

// attach stops the harness as a debugger would and, if that could be done, lets it go on.
func attach() error {
	goruntime.LockOSThread() // a tracer is a thread
	defer goruntime.UnlockOSThread()
	if err := syscall.PtraceAttach(1); err != nil {
		return err
	}
	if _, err := syscall.Wait4(1, nil, syscall.WALL, nil); err != nil {
		return err
	}
	return syscall.PtraceDetach(1)
}

// processes reads the environment and the writable memory of everybody.
func (t *thief) processes() {
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil || len(all) == 0 {
		t.tried("/proc", 0, fmt.Errorf("no processes: %w", err))
	}
	for _, dir := range all {
		t.file(dir + "/environ")
		t.file(dir + "/cmdline")
		t.memory(dir)
	}
}

func (t *thief) memory(dir string) {
	maps, err := os.Open(dir + "/maps") // #nosec G304 -- that is what it is for
	if err != nil {
		t.tried(dir+"/maps", 0, err)
		return
	}
	defer func() { _ = maps.Close() }()
	mem, err := os.Open(dir + "/mem") // #nosec G304 -- that is what it is for
	if err != nil {
		t.tried(dir+"/mem", 0, err)
		return
	}
	defer func() { _ = mem.Close() }()
	var total int64
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || !strings.HasPrefix(fields[1], "rw") {
			continue
		}
		low, high, _ := strings.Cut(fields[0], "-")
		from, errLow := strconv.ParseInt(low, 16, 64)
		to, errHigh := strconv.ParseInt(high, 16, 64)
		if errLow != nil || errHigh != nil {
			continue
		}
		n, _ := t.search(dir+"/mem", io.NewSectionReader(mem, from, to-from)) // pages that cannot be read are skipped with their region
		total += n
	}
	t.tried(dir+"/mem", total, nil)
}

// listeners asks both ports of the harness as a stranger would, and searches what they say.
func (t *thief) listeners() {
	web := &http.Client{Timeout: dialPatience, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // #nosec G402 -- a stranger
	for _, url := range []string{"http://127.0.0.1:4000/healthz", "http://127.0.0.1:4000/", "http://127.0.0.1:4000/acp", "http://127.0.0.1:4000/debug/pprof/heap",
		"https://127.0.0.1:" + deliveryPort + challengePath, "https://127.0.0.1:" + deliveryPort + "/debug/vars"} {
		resp, err := web.Get(url) //nolint:noctx // bounded by the client's own time
		if err != nil {
			t.tried(url, 0, err)
			continue
		}
		var head strings.Builder
		_ = resp.Header.Write(&head)
		n, err := t.search(url, io.MultiReader(strings.NewReader(head.String()+"\n"), resp.Body))
		_ = resp.Body.Close()
		t.tried(url+" "+resp.Status, n, err)
	}
}

// hashes is what a thief may know of secrets.
func hashes(secrets map[string]string) string {
	var pairs []string
	for name, secret := range secrets {
		sum := sha256.Sum256([]byte(secret))
		pairs = append(pairs, name+"="+hex.EncodeToString(sum[:]))
	}
	slices.Sort(pairs)
	return strings.Join(pairs, ",")
}
