package rest

import (
	"fmt"
	"strings"
	"testing"
)

// A write happens only if its condition holds; what is no condition is said so.
func TestConditionsOfWrites(t *testing.T) {
	for _, c := range []struct {
		fields []string
		status int
		code   string
	}{
		{nil, 428, codePrecondition},
		{[]string{`If-Match: "1"`}, 200, ""},
		{[]string{`If-Match: *`}, 200, ""},
		{[]string{`If-Match: "7", "1"`}, 200, ""},
		{[]string{`If-Match: "7"`, `If-Match: "1"`}, 200, ""},
		{[]string{`If-Match:  , "1" ,`}, 200, ""},
		{[]string{`If-Match: W/"7", "1"`}, 200, ""},
		{[]string{`If-Match: "7"`}, 409, codeVersionConflict},
		{[]string{`If-Match: W/"1"`}, 409, codeVersionConflict},
		{[]string{`If-Match: "x"`}, 409, codeVersionConflict},
		{[]string{`If-Match: ""`}, 409, codeVersionConflict},
		{[]string{`If-Match: "01"`}, 409, codeVersionConflict},
		{[]string{`If-Match: "0"`}, 409, codeVersionConflict},
		{[]string{`If-Match: "-1"`}, 409, codeVersionConflict},
		{[]string{`If-Match: "99999999999999999999"`}, 409, codeVersionConflict},
		{[]string{`If-None-Match: *`}, 409, codeVersionConflict},
		{[]string{`If-Match: 1`}, 400, codeBadRequest},
		{[]string{`If-Match: '1'`}, 400, codeBadRequest},
		{[]string{`If-Match: "1`}, 400, codeBadRequest},
		{[]string{`If-Match: "1" "2"`}, 400, codeBadRequest},
		{[]string{`If-Match: w/"1"`}, 400, codeBadRequest},
		{[]string{`If-Match: *, "1"`}, 400, codeBadRequest},
		{[]string{`If-Match: ,`}, 400, codeBadRequest},
		{[]string{`If-Match: `}, 400, codeBadRequest},
		{[]string{"If-Match: \"1\x01\""}, 400, codeBadRequest},
		{[]string{`If-Match: ` + strings.Repeat(`"1",`, tagsMax+1)}, 400, codeBadRequest},
		{[]string{`If-None-Match: "1"`}, 400, codeBadRequest},
		{[]string{`If-None-Match: *`, `If-Match: "1"`}, 400, codeBadRequest},
	} {
		t.Run(fmt.Sprint(c.fields), func(t *testing.T) {
			a := open(t, editor)
			got := a.want(t, c.status, "PUT", "/v1/rules/growth-global?rollout=immediate", growthGlobal, c.fields...)
			if c.code == "" {
				return
			}
			p := got.problem(t)
			if p.Code != c.code {
				t.Errorf("%s, want %s", got.text, c.code)
			}
			if c.code == codeVersionConflict && (p.CurrentVersion == nil || *p.CurrentVersion != 1 || got.header.Get("ETag") != `"1"`) {
				t.Errorf("the current version is not told: %s, ETag %s", got.text, got.header.Get("ETag"))
			}
			if a.want(t, 200, "GET", "/v1/rules/growth-global", "").header.Get("ETag") != `"1"` {
				t.Error("the rule has changed")
			}
		})
	}
}

// What does not exist can be created, and not replaced.
func TestConditionsOfWhatDoesNotExist(t *testing.T) {
	a := open(t, editor)
	if p := a.want(t, 409, "PUT", "/v1/rules/none", growthGlobal, `If-Match: "1"`).problem(t); *p.CurrentVersion != 0 {
		t.Errorf("%+v", p)
	}
	a.want(t, 404, "PUT", "/v1/rules/none", growthGlobal, "If-Match: *")
	a.want(t, 404, "DELETE", "/v1/routes/none", "", "If-Match: *")
	a.want(t, 201, "PUT", "/v1/rules/none?rollout=immediate", growthGlobal, "If-None-Match: *")
	a.want(t, 200, "DELETE", "/v1/rules/none", "", "If-Match: *")
	back := a.want(t, 200, "POST", "/v1/rules/none:rollback", "", "If-None-Match: *")
	if back.header.Get("ETag") != `"3"` {
		t.Errorf("ETag %s, %s", back.header.Get("ETag"), back.text)
	}
}

// FuzzCondition: what is read as a condition means the same once it is written
// down again, and weak tags never match strongly.
func FuzzCondition(f *testing.F) {
	for _, seed := range []string{`"7"`, `W/"7"`, `*`, `"1", W/"2" ,,"x"`, `""`, `"7`, `7`, `"é"`, "\"\x7f\"", ","} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseCondition([]string{text})
		if err != nil {
			return
		}
		if !c.present() || c.any && len(c.tags) > 0 || len(c.tags) > tagsMax {
			t.Fatalf("%q is %+v", text, c)
		}
		var again []string
		for _, tag := range c.tags {
			written := etag(tag.version)
			if tag.weak {
				written = "W/" + written
			}
			again = append(again, written)
			if tag.version < 0 || tag.version > 0 && !c.weakly(tag.version) {
				t.Fatalf("%q: %+v does not match itself", text, tag)
			}
		}
		if version, ok := c.exactly(); ok && (!c.strongly(version) || version < 1) {
			t.Fatalf("%q is exactly %d", text, version)
		}
		if c.any {
			return
		}
		d, err := parseCondition(again)
		if err != nil || fmt.Sprint(d) != fmt.Sprint(c) {
			t.Fatalf("%q is %+v, written down again %+v (%v)", text, c, d, err)
		}
	})
}
