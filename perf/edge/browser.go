package edge

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// page shows images, echoes over a WebSocket and reads an event stream, and says
// in its body how that went.
const page = `<!doctype html><title>edge</title><meta charset=utf-8>
<style>body{font:16px sans-serif;margin:2em} img{margin:4px;border-radius:8px}</style>
<h1>Through the gateway</h1><div id=images></div><p id=said>waiting</p>
<script>
const said = {images: 0, socket: 0, events: 0}
const show = () => document.getElementById('said').textContent = JSON.stringify(said)
for (let n = 0; n < 20; n++) {
  const image = new Image(64, 64)
  image.onload = () => { said.images++; show() }
  image.src = '/image?n=' + n
  document.getElementById('images').append(image)
}
const socket = new WebSocket('ws://' + location.host + '/socket')
socket.onopen = () => socket.send('0')
socket.onmessage = m => { said.socket++; show(); if (said.socket < 5) socket.send(String(said.socket)) }
const events = new EventSource('/events')
events.onmessage = () => { said.events++; show(); if (said.events == 4) events.close() }
</script>`

func servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprint(w, page)
}

var pageSaid = regexp.MustCompile(`<p id="said">(.*?)</p>`)

// browser loads the page in a headless browser.
func browser(ctx context.Context, b *bench) (string, error) {
	path, err := exec.LookPath(b.Chromium)
	if err != nil {
		return "left out: " + err.Error(), nil
	}
	dir, err := os.MkdirTemp("", "edge-browser")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	load := func(flags ...string) (string, error) {
		args := append([]string{
			"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
			"--user-data-dir=" + filepath.Join(dir, "profile"), "--virtual-time-budget=10000", "--window-size=900,500",
		}, flags...)
		c := exec.CommandContext(ctx, path, append(args, "http://"+b.gateway.API+"/page")...)
		c.Dir = dir
		output, err := c.Output()
		return string(output), err
	}
	dom, err := load("--dump-dom")
	if err != nil {
		return "", fmt.Errorf("the browser: %w", err)
	}
	said := pageSaid.FindStringSubmatch(dom)
	if said == nil {
		return "", errors.New("the page was not shown")
	}
	if want := `{"images":20,"socket":5,"events":4}`; said[1] != want {
		return "", fmt.Errorf("the page says %s, want %s", said[1], want)
	}
	if b.Screenshot != "" {
		if _, err := load("--screenshot=" + b.Screenshot); err != nil {
			return "", fmt.Errorf("the screenshot: %w", err)
		}
	}
	return "the page says " + strings.TrimSpace(said[1]), nil
}
