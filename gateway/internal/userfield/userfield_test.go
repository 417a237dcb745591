package userfield

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	jsonType = "application/json"
	formType = "application/x-www-form-urlencoded"
	most     = 256 // bytes of a body here
)

func login(contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/login", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// TestUserNameIsFound: in what everybody reads alike.
func TestUserNameIsFound(t *testing.T) {
	for _, c := range []struct{ contentType, body, want string }{
		{jsonType, `{"username":"ada","password":"x"}`, "ada"},
		{jsonType, `{"nested":{"username":"no"},"list":["username",{"username":1}],"username":"ada"}`, "ada"},
		{jsonType, ` { "user\u006eame" : "a\u0064a{}" } ` + "\n", "ada{}"},
		{jsonType + "; charset=UTF-8", `{"username":"ünï"}`, "ünï"},
		{"application/vnd.shop+json", `{"username":"ada"}`, "ada"},
		{formType, `username=ada&password=x`, "ada"},
		{formType, `password=x&user%6eame=a+d%61`, "a da"},
		{formType, `_charset_=utf-8&username=ada`, "ada"},
		{jsonType, `{"username":" \ud83d\ude00\t"}`, " \U0001F600\t"},
		{jsonType, `{"username":" \ufeffbob\u00a0\ufeff"}`, " \ufeffbob\u00a0\ufeff"},
	} {
		name, err := Take(login(c.contentType, c.body), "username", most)
		if err != nil || name != c.want {
			t.Errorf("%s %s: user is %q, %v; want %q", c.contentType, c.body, name, err, c.want)
		}
	}
}

// TestAmbiguousBodyIsRefused: a caller cannot make this gateway count one name and
// the API behind try another.
func TestAmbiguousBodyIsRefused(t *testing.T) {
	for _, c := range []struct{ contentType, body, code string }{
		{jsonType, `{"username":"a","username":"b"}`, CodeUserAmbiguous},
		{jsonType, `{"username":"a","UserName":"b"}`, CodeUserAmbiguous},
		{jsonType, `{"Username":"a"}`, CodeUserAmbiguous},
		{jsonType, `{"username":"a","u\u017fername":"b"}`, CodeUserAmbiguous},
		{jsonType, `{"username":12}`, CodeUserMissing},
		{jsonType, `{"username":["a"]}`, CodeUserMissing},
		{jsonType, `{"username":null}`, CodeUserMissing},
		{jsonType, `{"username":" "}`, CodeUserMissing},
		{jsonType, `{}`, CodeUserMissing},
		{jsonType, `{"username":"a"} {"username":"b"}`, CodeBodyUnreadable},
		{jsonType, `{"username":"a"}]`, CodeBodyUnreadable},
		{jsonType, `{"username":"a"`, CodeBodyUnreadable},
		{jsonType, `[{"username":"a"}]`, CodeBodyUnreadable},
		{jsonType, `"username"`, CodeBodyUnreadable},
		{jsonType, ``, CodeBodyUnreadable},
		{jsonType, "{\"username\":\"a\xff\"}", CodeBodyUnreadable},
		{jsonType, "\ufeff" + `{"username":"a"}`, CodeBodyUnreadable},
		{jsonType + "; charset=utf-16", `{"username":"a"}`, CodeBodyUnreadable},
		{formType, `username=a&username=b`, CodeUserAmbiguous},
		{formType, `username=a&USERNAME=b`, CodeUserAmbiguous},
		{formType, `username=a;username=b`, CodeBodyUnreadable},
		{formType, `username=%zz`, CodeBodyUnreadable},
		{formType, `password=x`, CodeUserMissing},
		{formType, ``, CodeUserMissing},
		{jsonType, `{"username":"bob\u0000x"}`, CodeUserAmbiguous},
		{jsonType, `{"username":"bo\u0008ob"}`, CodeUserAmbiguous},
		{jsonType, `{"username":"b\ufeffob"}`, CodeUserAmbiguous},
		{jsonType, `{"username":"bob\u200b"}`, CodeUserAmbiguous},
		{jsonType, `{"username":"\ufeff "}`, CodeUserMissing},
		{formType, "username=a&%ef%bb%bfusername=b", CodeUserAmbiguous},
		{jsonType, `{"username":"bob\ud800"}`, CodeUserAmbiguous},
		{jsonType + "; charset*=utf-8''utf-16", `{"username":"a"}`, CodeBodyUnreadable},
		{jsonType + "; charset=utf-8; charset=utf-7", `{"username":"a"}`, CodeBodyUnreadable},
		{jsonType, "\xff\xfe{\x00", CodeBodyUnreadable},
		{formType, `{"username":"bob","password":"x","a":"&username=r1&"}`, CodeBodyUnreadable},
		{formType, "\r\n\f\v\ufeff\u00a0" + `{"username":"bob"}&username=r1`, CodeBodyUnreadable},
		{formType, `["&username=r1&"]`, CodeBodyUnreadable},
		{formType, `"&username=r1&"`, CodeBodyUnreadable},
		{formType, `<login user="bob" a="&username=r1&"/>`, CodeBodyUnreadable},
		{formType, `username=bob%00x`, CodeUserAmbiguous},
		{formType, `username=bob%ff`, CodeBodyUnreadable},
		{formType, `username=a&username%5b%5d=b`, CodeUserAmbiguous},
		{formType, `username=a&username%5b0=b`, CodeUserAmbiguous},
		{formType, `username=a&+username=b`, CodeUserAmbiguous},
		{formType, `username=a&username%00x=b`, CodeUserAmbiguous},
		{formType, `_charset_=utf-16&username=a`, CodeBodyUnreadable},
		{formType, `_charset_=utf-8&_charset_=utf-7&username=a`, CodeBodyUnreadable},
		{"multipart/form-data; boundary=x", "--x", CodeBodyUnreadable},
		{"text/plain", `{"username":"a"}`, CodeBodyUnreadable},
		{"", `{"username":"a"}`, CodeBodyUnreadable},
		{jsonType, `{"username":"` + strings.Repeat("a", most) + `"}`, CodeBodyTooLarge},
	} {
		r := login(c.contentType, c.body)
		name, err := Take(r, "username", most)
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Code != c.code || name != "" {
			t.Errorf("%s %.60s: user is %q, %v; want %s", c.contentType, c.body, name, err, c.code)
		}
	}

	stalled := login(jsonType, "")
	stalled.Body, stalled.ContentLength = io.NopCloser(iotest.ErrReader(fmt.Errorf("read: %w", os.ErrDeadlineExceeded))), 10
	var refusal *Refusal
	if _, err := Take(stalled, "username", most); !errors.As(err, &refusal) || refusal.Code != CodeBodyTimeout {
		t.Errorf("a body that stops coming: %v, want %s", err, CodeBodyTimeout)
	}
	compressed := login(jsonType, `{"username":"a"}`)
	compressed.Header["Content-Encoding"] = []string{"identity", "gzip"}
	twice := login(jsonType, `{"username":"a"}`)
	twice.Header.Add("Content-Type", formType)
	queried := login(formType, `username=a`)
	queried.URL.RawQuery = "username=b"
	queriedJSON := login(jsonType, `{"username":"a"}`)
	queriedJSON.URL.RawQuery = "UserName=b"
	broken := login(jsonType, "")
	broken.Body, broken.ContentLength = io.NopCloser(iotest.ErrReader(io.ErrUnexpectedEOF)), -1
	for _, r := range []*http.Request{compressed, twice, queried, queriedJSON, broken} {
		if name, err := Take(r, "username", most); err == nil {
			t.Errorf("%v: user is %q, want a refusal", r.Header, name)
		}
	}
}

// TestFieldIsFoundWhateverPHPMakesOfIt: a field with an underscore has more
// spellings there.
func TestFieldIsFoundWhateverPHPMakesOfIt(t *testing.T) {
	for body, code := range map[string]string{
		`user_name=a`: "", `user_name=a&user.name=b`: CodeUserAmbiguous, `user_name=a&user+name=b`: CodeUserAmbiguous,
		`user.name=a`: CodeUserAmbiguous, `user_name=a&user%5bname=b`: CodeUserAmbiguous, `user_name=a&other=b`: "",
	} {
		_, err := Take(login(formType, body), "user_name", most)
		got := ""
		if refusal := (*Refusal)(nil); errors.As(err, &refusal) {
			got = refusal.Code
		}
		if got != code {
			t.Errorf("%s: %q, want %q", body, got, code)
		}
	}
}

// TestBodyIsGivenBack: what was read is still all there, whether it was accepted,
// refused or too large, with and without a length.
func TestBodyIsGivenBack(t *testing.T) {
	for _, body := range []string{
		`{"username":"ada"}`, `nonsense`, ``,
		`{"username":"` + strings.Repeat("a", 5*most) + `"}`,
	} {
		for _, chunked := range []bool{false, true} {
			r := login(jsonType, body)
			if chunked {
				r.ContentLength = -1
			}
			_, _ = Take(r, "username", most)
			got, err := io.ReadAll(r.Body)
			if err != nil || string(got) != body {
				t.Errorf("chunked %v: %d bytes left (%v), want %d", chunked, len(got), err, len(body))
			}
			if r.ContentLength >= 0 && r.ContentLength != int64(len(body)) {
				t.Errorf("chunked %v: ContentLength is %d for %d bytes", chunked, r.ContentLength, len(body))
			}
		}
	}
}

// FuzzUserField: whatever a caller sends is given back whole, and a name found in
// JSON is the one that Go's own decoder finds.
func FuzzUserField(f *testing.F) {
	f.Add(jsonType, "", `{"username":"ada","x":[1,{"username":2}]}`)
	f.Add(jsonType+"; charset=utf-8", "a=b", `{"username":"a","Username":"b"}`)
	f.Add(formType, "username=c", `username=a&b=%41`)
	f.Add("x/y+json;q", "", "{\"username\":\"\\ud800\"}")
	f.Fuzz(func(t *testing.T, contentType, query, body string) {
		r := login(contentType, body)
		r.URL.RawQuery = query
		name, err := Take(r, "username", most)
		left, readErr := io.ReadAll(r.Body)
		if readErr != nil || string(left) != body {
			t.Fatalf("%q is given back as %q, %v", body, left, readErr)
		}
		if (name == "") == (err == nil) {
			t.Fatalf("user %q, error %v", name, err)
		}
		if err != nil || strings.HasPrefix(contentType, formType) || !bytes.HasPrefix(bytes.TrimSpace(left), []byte("{")) {
			return
		}
		var decoded struct {
			Username string `json:"username"`
		}
		if jsonErr := json.Unmarshal([]byte(body), &decoded); jsonErr == nil && strings.Contains(contentType, "json") && decoded.Username != name {
			t.Fatalf("user is %q, encoding/json says %q", name, decoded.Username)
		}
	})
}
