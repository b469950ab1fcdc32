package page

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/hearthdev/hearth/test/apiserver"
)

// chromium is a browser of this machine; hack/setup.sh installs one.
func chromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium-headless-shell", "headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	require.NotEqual(t, "1", os.Getenv("HEARTH_REQUIRE_REAL"), "no Chromium: hack/setup.sh says what to install")
	t.Skip("no Chromium on the PATH: hack/setup.sh says what to install")
	return ""
}

// browser starts one and gives the context of its first window.
func browser(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium(t)), chromedp.NoSandbox, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("force-device-scale-factor", "1"), chromedp.Flag("hide-scrollbars", true))
	ctx, stop := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(stop)
	ctx, end := chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	require.NoError(t, chromedp.Do(ctx))
	return ctx
}

// window opens a window of a size, and gives what its console, its policy or its network complained about.
func window(t *testing.T, ctx context.Context, width, height int64) (tab context.Context, complaints func() []string) {
	t.Helper()
	tab, end := chromedp.NewContext(ctx)
	t.Cleanup(end)
	var mu sync.Mutex
	var said []string
	say := func(text string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, text)
	}
	require.NoError(t, chromedp.Listen(tab, func(event any) {
		switch e := event.(type) {
		case *log.EventEntryAdded:
			say(string(e.Entry.Source) + ": " + e.Entry.Text + " " + e.Entry.URL)
		case *runtime.EventExceptionThrown:
			say("uncaught: " + e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			say("console: " + string(e.Type))
		}
	}))
	_, err := chromedp.Call(tab, log.Enable, cdp.Empty{})
	require.NoError(t, err)
	require.NoError(t, chromedp.Do(tab, chromedp.EmulateViewport(width, height)))
	return tab, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string(nil), said...)
	}
}

func text(t *testing.T, tab context.Context, script string) string {
	t.Helper()
	out, err := chromedp.Run(tab, chromedp.Evaluate[string](script))
	require.NoError(t, err, script)
	return out
}

// until waits for a condition of the page. It asks from outside: what chromedp would put into the page, its policy forbids.
func until(t *testing.T, tab context.Context, condition string) {
	t.Helper()
	require.Eventually(t, func() bool {
		is, err := chromedp.Run(tab, chromedp.Evaluate[bool](condition))
		return err == nil && is
	}, patience, 10*time.Millisecond, condition)
}

const isLive = `document.getElementById("live").textContent === "Live."`

func visit(t *testing.T, tab context.Context, url string) {
	t.Helper()
	require.NoError(t, chromedp.Do(tab, chromedp.Navigate(url), chromedp.WaitReady("main")))
}

func prefer(t *testing.T, tab context.Context, scheme string) {
	t.Helper()
	_, err := chromedp.Call(tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
	require.NoError(t, err)
}

var sizes = map[string][2]int64{"phone": {390, 844}, "desk": {1280, 800}}

// The status page in a real browser: what fits, what is complained about, what changes by itself, and what is left without JavaScript.
func TestThePageInARealBrowser(t *testing.T) {
	ctx := browser(t)
	for size, px := range sizes {
		t.Run(size, func(t *testing.T) {
			g := playedStage(t)
			url := g.serve(t)
			t.Run("nothing is wider than the window, and nobody complains", func(t *testing.T) {
				tab, complaints := window(t, ctx, px[0], px[1])
				for name, path := range pages {
					if g.get(path).Code != 200 {
						continue // the browser itself complains of those
					}
					visit(t, tab, url+path)
					assert.Empty(t, text(t, tab, `[...document.querySelectorAll("body *")].filter(e => !e.matches(".skip") && e.getBoundingClientRect().right > innerWidth + 0.5 && !e.closest("thead")).map(e => e.outerHTML.slice(0, 200)).join("\n") +
						(document.documentElement.scrollWidth > innerWidth ? "the page scrolls sideways" : "")`), name)
				}
				assert.Empty(t, complaints())
			})
			t.Run("long names fit as well", func(t *testing.T) {
				long := strings.Repeat("a-very-long-name-", 12)
				a, r := agentOf("payments", long, hostileAgent(long)), runOf("payments", long, "run-"+long, time.Minute, working(long, time.Second))
				g := newStage(t, list(a), list(r, standingOf(a, 1, func(*run) {})))
				tab, _ := window(t, ctx, px[0], px[1])
				url := g.serve(t)
				for _, path := range []string{"/", "/runs", "/runs/payments/run-" + long, "/agents/payments/" + long} {
					visit(t, tab, url+path)
					assert.Equal(t, "fits", text(t, tab, `document.documentElement.scrollWidth > innerWidth ? "scrolls sideways" : "fits"`), path)
				}
			})
		})
	}
	t.Run("a change is shown without loading the page again", func(t *testing.T) { liveUpdate(t, ctx) })
	t.Run("without JavaScript the tables are whole", func(t *testing.T) { withoutScript(t, ctx) })
	t.Run("the keyboard's place is seen and kept", func(t *testing.T) { focus(t, ctx) })
	t.Run("texts have contrast, in light and dark", func(t *testing.T) { contrast(t, ctx) })
	t.Run("screenshots", func(t *testing.T) { screenshots(t, ctx) })
}

func liveUpdate(t *testing.T, ctx context.Context) {
	g := playedStage(t)
	g.pace = 10 * time.Millisecond
	url := g.serve(t)
	tab, complaints := window(t, ctx, 390, 844)
	const row = `[...document.querySelectorAll("#runs tbody tr")].find(r => r.innerText.includes("review-480")).querySelector(".badge").innerText`
	visit(t, tab, url+"/runs")
	until(t, tab, isLive)
	text(t, tab, `window.same = true; document.querySelector("[name=agent]").value = "typed"`)
	assert.Equal(t, "Running", text(t, tab, row))
	g.index.put(runOf("payments", "reviewer", "review-480", 70*time.Second, ended("reviewer-2", "Completed", 0, time.Minute)))
	until(t, tab, row+` === "Succeeded"`)
	assert.Equal(t, "true", text(t, tab, `String(window.same)`), "the page was not loaded again")
	assert.Equal(t, "typed", text(t, tab, `document.querySelector("[name=agent]").value`), "what somebody types is left alone")
	assert.Empty(t, complaints())
}

func withoutScript(t *testing.T, ctx context.Context) {
	url := playedStage(t).serve(t)
	tab, complaints := window(t, ctx, 390, 844)
	_, err := chromedp.Call(tab, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	require.NoError(t, err)
	visit(t, tab, url+"/")
	body, err := chromedp.Run(tab, chromedp.Text(chromedp.CSS("body")))
	require.NoError(t, err)
	for _, says := range []string{"reviewer-1", "2 of 2 at work, 1 of 2 queued", "Recasting", "review-482", "every standing run is at capacity", "nightly-report", "Refresh", "12 s"} {
		assert.Contains(t, body, says)
	}
	require.NoError(t, chromedp.Do(tab, chromedp.Click(chromedp.CSS(`a[href="/runs/payments/review-476"]`)), chromedp.WaitVisible(chromedp.CSS(".timeline"))))
	body, err = chromedp.Run(tab, chromedp.Text(chromedp.CSS("main")))
	require.NoError(t, err)
	assert.Contains(t, body, "DeadlineExceeded")
	assert.Empty(t, complaints())
}

func focus(t *testing.T, ctx context.Context) {
	g := playedStage(t)
	g.pace = 10 * time.Millisecond
	url := g.serve(t)
	tab, _ := window(t, ctx, 1280, 800)
	visit(t, tab, url+"/queue")
	until(t, tab, isLive)
	const place = `(e => e.getAttribute("href") || e.tagName)(document.activeElement)`
	for _, href := range []string{"#main", "/", "/", "/queue", "/runs", "/runs/payments/triage-incident-77"} {
		require.NoError(t, chromedp.Do(tab, chromedp.KeyEvent("\t")))
		assert.Equal(t, href, text(t, tab, place))
		assert.Equal(t, "solid 3px", text(t, tab, `(s => s.outlineStyle + " " + s.outlineWidth)(getComputedStyle(document.activeElement))`), href)
	}
	g.index.put(runOf("payments", "reviewer", "review-483", time.Second, func(*run) {}))
	until(t, tab, `document.getElementById("queue").innerText.includes("review-483")`)
	assert.Equal(t, "/runs/payments/triage-incident-77", text(t, tab, place), "a table that is put in anew keeps it")
}

// contrast is WCAG 2.2, 1.4.3: 4.5 to 1 for text.
func contrast(t *testing.T, ctx context.Context) {
	url := playedStage(t).serve(t)
	tab, _ := window(t, ctx, 1280, 800)
	const low = `(() => {
		const parse = (c) => c.match(/[\d.]+/g).map(Number);
		const shade = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => v / 255).map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
		const ground = (e) => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length === 3 || c[3] === 1) return c; } return [255, 255, 255]; };
		return [...document.querySelectorAll("body *")].filter((e) => [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
			const [a, b] = [shade(parse(getComputedStyle(e).color)), shade(ground(e))].sort((x, y) => y - x);
			return [(a + 0.05) / (b + 0.05), e.outerHTML.slice(0, 120)];
		}).filter(([ratio]) => ratio < 4.5).map(String).join("\n");
	})()`
	for _, scheme := range []string{"light", "dark"} {
		prefer(t, tab, scheme)
		for _, path := range []string{"/", "/runs", "/agents/payments/reviewer", "/runs/payments/review-476", "/runs/payments/triage-incident-77"} {
			visit(t, tab, url+path)
			assert.Empty(t, text(t, tab, low), scheme+path)
		}
	}
}

// maxShot bounds a picture of the docs.
const maxShot = 150 << 10

func screenshots(t *testing.T, ctx context.Context) {
	root, err := apiserver.Root()
	require.NoError(t, err)
	url := playedStage(t).serve(t)
	for name, shot := range map[string]struct {
		path          string
		width, height int64
	}{"status-page.png": {"/", 1100, 800}, "status-page-phone.png": {"/", 390, 844}, "status-page-run.png": {"/runs/payments/review-476", 1100, 620}} {
		tab, _ := window(t, ctx, shot.width, shot.height)
		prefer(t, tab, "light")
		visit(t, tab, url+shot.path)
		until(t, tab, isLive)
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		assert.Less(t, len(picture), maxShot, name)
		file := filepath.Join(root, "docs", "images", name)
		if *update {
			require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o755))
			require.NoError(t, os.WriteFile(file, picture, 0o644))
		}
		kept, err := os.Stat(file)
		require.NoError(t, err, "-update makes it")
		assert.Less(t, kept.Size(), int64(maxShot), name)
	}
}
