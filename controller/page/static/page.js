// Keeps a page up to date: the server says that something changed, the page is fetched again, and the parts that differ are put in.
"use strict";
(() => {
  const state = document.getElementById("live");
  const pause = 30000; // before a stream is tried again that the server had no room for
  let version = document.body.dataset.version;
  let source, timer, fetching = false, again = false;

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  // selecting tells whether somebody is about to copy something out of a part.
  const selecting = (part) => {
    const chosen = getSelection();
    return chosen && !chosen.isCollapsed && part.contains(chosen.anchorNode);
  };

  const put = (fresh) => {
    const focused = document.activeElement && document.activeElement.getAttribute("href");
    for (const part of document.querySelectorAll("[data-live]")) {
      const next = fresh.getElementById(part.id);
      if (!next || next.outerHTML === part.outerHTML || selecting(part)) continue;
      const held = focused && part.contains(document.activeElement);
      part.replaceWith(next);
      const link = held && [...next.querySelectorAll("a")].find((a) => a.getAttribute("href") === focused);
      if (link) link.focus({ preventScroll: true });
    }
    document.title = fresh.title;
  };

  const refresh = async () => {
    again = true;
    if (fetching) return;
    fetching = true;
    try {
      while (again) {
        again = false;
        const answer = await fetch(location.href, { cache: "no-store" });
        const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
        if (answer.ok) put(fresh);
        else document.querySelector("main").replaceWith(fresh.querySelector("main"));
      }
    } catch {
      say("Not live: the controller does not answer. Is the port still forwarded?");
    } finally {
      fetching = false;
    }
  };

  const stop = () => { clearTimeout(timer); if (source) source.close(); source = undefined; };
  const start = () => {
    stop();
    source = new EventSource("/changes");
    source.addEventListener("open", () => say("Live."));
    source.addEventListener("changed", (e) => {
      if (e.data === version) return;
      version = e.data;
      refresh();
    });
    source.addEventListener("tick", refresh); // times grow older
    source.addEventListener("error", () => {
      say("Not live: trying again.");
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(start, pause);
    });
  };

  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return stop();
    start();
    refresh();
  });
  addEventListener("pagehide", stop);
  addEventListener("pageshow", (e) => { if (e.persisted) { start(); refresh(); } });
  start();
})();
