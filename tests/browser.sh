# Pages in a real Chromium, for scripts that have check.sh: `browser_open NAME`, then `dom`.
explain() { tail -n 5 said | cut -c1-400 | sed 's/^/  /'; }

# browser_open NAME: finds one that runs; without, the script NAME is skipped.
browser_open() {
    for browser in chromium chromium-browser google-chrome ''; do
        command -v "$browser" >/dev/null 2>&1 && break
    done
    [ -n "$browser" ] || skip_all "$1" "no chromium here to open the page"
    echo '<p id="x"></p><script>x.textContent = 6 * 7</script>' >probe.html
    dom probe.html
    grep -q '<p id="x">42</p>' dom || skip_all "$1" "$browser does not run here"
}
# dom PAGE [FILE]: what the page has become, into FILE or dom; what the browser said, into said.
dom() {
    timeout 120 "$browser" --headless --no-sandbox --disable-gpu --disable-dev-shm-usage --user-data-dir="$work/profile" \
        --allow-file-access-from-files --enable-logging=stderr --window-size=1280,900 --virtual-time-budget=20000 \
        --host-resolver-rules='MAP * ~NOTFOUND' --dump-dom "file://$work/$1" >"${2:-dom}" 2>said
}
