#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""page.py SHFS STORE: opens the page of `shfs web` in a headless browser, zooms, drags and goes to what is not loaded;
prints how long that took, and in how much memory. STORE is of gen-journal, and in the index already."""

import os
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../tests/cases"))
import browser

browser.TIMEOUT = 600  # a busy machine

NOTE = """
    globalThis.seen = {long: []};
    new PerformanceObserver((list) => seen.long.push(...list.getEntries().map((e) => [e.startTime, e.duration])))
        .observe({type: 'longtask', buffered: true});
    new MutationObserver(() => {
        for (const key of ['ready', 'whole'])
            if (document.documentElement?.dataset[key]) seen[key] ??= performance.now();
    }).observe(document, {attributes: true, childList: true, subtree: true});
"""
# so many frames, each after a change of the view: their time of drawing, and from one to the next
FRAMES = """(async (change, n) => {
    const { timeline } = shfsMap, drawn = [], between = [], real = timeline.draw.bind(timeline);
    timeline.draw = () => { const t = performance.now(); real(); drawn.push(performance.now() - t); };
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    let last = await frame();
    for (let i = 0; i < n; i++) {
        change(timeline.view, i);
        await frame();
        const now = await frame();
        between.push((now - last) / 2);
        last = now;
    }
    delete timeline.draw;
    const of = (list) => list.sort((a, b) => a - b) && [list[list.length >> 1], list.at(-1)].map((ms) => Math.round(ms * 10) / 10);
    return { drawn: of(drawn), between: of(between) };
})"""
LOADED = "[shfsMap.model.commands.length, shfsMap.model.missing()]"


def memory(pid, field):
    with open(f"/proc/{pid}/status") as file:
        return int(re.search(rf"{field}:\s+(\d+)", file.read()).group(1)) // 1024


def children(pid):
    found = [int(n) for n in subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True).stdout.split()]
    return [pid, *(n for child in found for n in children(child))]


def long_tasks(page, since=0):
    found = [d for t, d in page.run("seen.long") if t >= since]
    return f"{len(found)} tasks above 50 ms, the longest {max(found, default=0):.0f} ms, all {sum(found):.0f} ms"


def frames(page, name, change, n=60):
    since = page.run("performance.now()")
    found = page.run(f"{FRAMES}({change}, {n})")
    print(f"{name}: drawn in {found['drawn']} ms, a frame each {found['between']} ms (median, most); {long_tasks(page, since)}")


def look(page, server, url):
    page.ask("Page.addScriptToEvaluateOnNewDocument", source=NOTE)
    page.go(url)
    page.wait("document.documentElement.dataset.whole === 'yes'")
    seen = page.run("seen")
    print(f"first view after {seen['ready']:.0f} ms, all of it after {seen['whole']:.0f} ms; {long_tasks(page)}")
    print(f"loaded, not loaded: {page.run(LOADED)}")
    page.run("(document.getElementById('graph-close').click(), 1)")
    page.settle()
    frames(page, "zoom out and in", "(view, i) => view.by(i < 30 ? 1 / 1.3 : 1.3)")
    frames(page, "drag", "(view, i) => view.pan(i % 20 < 10 ? 40 : -40)")
    page.run("(document.getElementById('fit').click(), 1)")
    page.settle()
    frames(page, "all of the time", "(view, i) => view.by(i % 2 ? 1.01 : 1 / 1.01)")
    for part in (0.2, 0.5):
        t = page.run(f"""(async () => {{
            const {{ model, timeline }} = shfsMap, {{ hollow }} = model, at = hollow[Math.floor(hollow.length * {part})];
            if (!at) return null;
            const t = performance.now();
            timeline.view.show(at.from - 43200e6, at.from + 43200e6);
            while (model.missing(...timeline.view.window())) await new Promise((done) => setTimeout(done, 20));
            return [t, performance.now() - t];
        }})()""")
        if t:
            print(f"a day that was not loaded: there after {t[1]:.0f} ms; {long_tasks(page, t[0])}; {page.run(LOADED)}")
    while page.run("shfsMap.model.missing()"):
        n = page.run("shfsMap.model.commands.length")
        t = time.monotonic()
        page.run("(document.getElementById('earlier').click(), 1)")
        page.wait(f"shfsMap.model.commands.length >= {n} + 16000 || !shfsMap.model.missing()")
        print(f"earlier ones: {time.monotonic() - t:.1f} s; {page.run(LOADED)}")
    page.run("(document.getElementById('fit').click(), 1)")
    page.settle()
    frames(page, "all of the time, all loaded", "(view, i) => view.by(i % 2 ? 1.01 : 1 / 1.01)")
    frames(page, "zoom in and out, all loaded", "(view, i) => view.by(i < 30 ? 1.3 : 1 / 1.3)")
    page.ask("HeapProfiler.collectGarbage")
    print(f"memory: heap of the page {page.run('performance.memory.usedJSHeapSize') >> 20} MiB, "
          f"the largest of the browser's processes {max(memory(pid, 'VmRSS') for pid in children(page.process.pid))} MiB, "
          f"the server and its two {[memory(pid, 'VmHWM') for pid in children(server.pid)]} MiB at most")


def main():
    shfs, store = sys.argv[1:]
    server = subprocess.Popen([shfs, "--store", store, "web", "--no-browser", "--port", "0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    page = browser.Browser()
    try:
        look(page, server, server.stdout.readline().strip())
    finally:
        page.close()
        server.send_signal(signal.SIGINT)
        server.wait()


main()
