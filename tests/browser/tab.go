package browser

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Tab is one page of the browser.
type Tab struct {
	browser *Browser
	session string

	// Both are guarded by the browser's lock.
	requests []string
	faults   []string
	loaded   chan struct{}
}

// Tab opens the file at an absolute path and waits until it is loaded. width and height
// are of the window in CSS pixels; a phone has twice the density.
func (b *Browser) Tab(file string, width, height int, phone bool) *Tab {
	b.t.Helper()
	t := b.blank(width, height, phone)
	t.open(file)
	return t
}

// Scriptless opens the file where scripts are forbidden.
func (b *Browser) Scriptless(file string, width, height int) *Tab {
	b.t.Helper()
	t := b.blank(width, height, false)
	t.call("Emulation.setScriptExecutionDisabled", object{"value": true}, nil)
	t.open(file)
	return t
}

func (b *Browser) blank(width, height int, phone bool) *Tab {
	b.t.Helper()
	var target struct {
		TargetID string `json:"targetId"`
	}
	b.call("", "Target.createTarget", object{"url": "about:blank"}, &target)
	var attached struct {
		SessionID string `json:"sessionId"`
	}
	b.call("", "Target.attachToTarget", object{"targetId": target.TargetID, "flatten": true}, &attached)
	t := &Tab{browser: b, session: attached.SessionID, loaded: make(chan struct{}, 1)}
	b.mu.Lock()
	b.tabs[t.session] = t
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Network", "Runtime", "Log"} {
		t.call(domain+".enable", object{}, nil)
	}
	density := 1
	if phone {
		density = 2
	}
	t.call("Emulation.setDeviceMetricsOverride", object{"width": width, "height": height, "deviceScaleFactor": density, "mobile": phone}, nil)
	return t
}

func (t *Tab) open(file string) {
	t.browser.t.Helper()
	t.call("Page.navigate", object{"url": "file://" + file}, nil)
	select {
	case <-t.loaded:
	case <-time.After(patience):
		t.browser.t.Fatalf("%s is not loaded", file)
	}
}

type object = map[string]any

func (t *Tab) call(method string, params, into any) {
	t.browser.t.Helper()
	t.browser.call(t.session, method, params, into)
}

// hear notes an event. The browser's lock is held.
func (t *Tab) hear(method string, params json.RawMessage) {
	var event struct {
		Request struct {
			URL string `json:"url"`
		} `json:"request"`
		Entry struct {
			Level, Text string
		} `json:"entry"`
		Type             string `json:"type"`
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		} `json:"exceptionDetails"`
	}
	if json.Unmarshal(params, &event) != nil {
		return
	}
	switch method {
	case "Page.loadEventFired":
		select {
		case t.loaded <- struct{}{}:
		default:
		}
	case "Network.requestWillBeSent":
		if !strings.HasPrefix(event.Request.URL, "data:") { // the browser's own pictures, in controls
			t.requests = append(t.requests, event.Request.URL)
		}
	case "Runtime.exceptionThrown":
		t.faults = append(t.faults, event.ExceptionDetails.Text+" "+event.ExceptionDetails.Exception.Description)
	case "Log.entryAdded":
		t.faults = append(t.faults, event.Entry.Level+": "+event.Entry.Text)
	case "Runtime.consoleAPICalled":
		t.faults = append(t.faults, "console."+event.Type+": "+string(params))
	}
}

// Requests are the addresses that the page asked for, its own first.
func (t *Tab) Requests() []string {
	t.browser.mu.Lock()
	defer t.browser.mu.Unlock()
	return append([]string(nil), t.requests...)
}

// Faults are what the page complained about: errors, refused loads, console lines.
func (t *Tab) Faults() []string {
	t.browser.mu.Lock()
	defer t.browser.mu.Unlock()
	return append([]string(nil), t.faults...)
}

// Eval runs an expression in the page, waits for it if it is a promise, and decodes its
// value into the pointer, which may be nil.
func (t *Tab) Eval(expression string, into any) {
	t.browser.t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	t.call("Runtime.evaluate", object{"expression": expression, "awaitPromise": true, "returnByValue": true}, &r)
	if r.ExceptionDetails != nil {
		t.browser.t.Fatalf("%.200s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	if into == nil {
		return
	}
	if err := json.Unmarshal(r.Result.Value, into); err != nil {
		t.browser.t.Fatalf("%.200s is %s: %v", expression, r.Result.Value, err)
	}
}

// Text is the text that a person sees at the selector: what is hidden is not in it.
func (t *Tab) Text(selector string) (text string) {
	t.browser.t.Helper()
	t.Eval(fmt.Sprintf("document.querySelector(%q).innerText", selector), &text)
	return strings.TrimSpace(text)
}

// Print lays the page out as for paper, or as for a screen again.
func (t *Tab) Print(on bool) {
	t.browser.t.Helper()
	media := ""
	if on {
		media = "print"
	}
	t.call("Emulation.setEmulatedMedia", object{"media": media}, nil)
}

// Dark lets the person like dark pages.
func (t *Tab) Dark() {
	t.browser.t.Helper()
	t.call("Emulation.setEmulatedMedia", object{"features": []object{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
}

// PDF is the page as it is printed.
func (t *Tab) PDF() []byte {
	t.browser.t.Helper()
	return t.picture("Page.printToPDF", object{"preferCSSPageSize": true})
}

// Screenshot writes what is in the window as a PNG file.
func (t *Tab) Screenshot(name string) {
	t.browser.t.Helper()
	const mode = 0o644
	t.call("Page.bringToFront", object{}, nil)                                                                     // a tab behind another draws nothing
	if err := os.WriteFile(name, t.picture("Page.captureScreenshot", object{"format": "png"}), mode); err != nil { //nolint:gosec // it is to be looked at
		t.browser.t.Fatal(err)
	}
}

func (t *Tab) picture(method string, params object) []byte {
	t.browser.t.Helper()
	var r struct{ Data string }
	t.call(method, params, &r)
	data, err := base64.StdEncoding.DecodeString(r.Data)
	if err != nil {
		t.browser.t.Fatal(err)
	}
	return data
}
