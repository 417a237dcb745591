package testenv_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/rueidis"

	"github.com/shiplane/limits/libs/testenv"
)

func connect(t *testing.T, r *testenv.Redis, url string) rueidis.Client {
	t.Helper()
	option, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache, option.AlwaysPipelining, option.TLSConfig = true, true, r.TLS()
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// get returns a value, empty if there is none, or the server's error.
func get(ctx context.Context, t *testing.T, r *testenv.Redis, url, key string) string {
	t.Helper()
	option, err := rueidis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	option.DisableCache, option.TLSConfig = true, r.TLS()
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err.Error()
	}
	defer client.Close()
	value, err := client.Do(ctx, client.B().Get().Key(key).Build()).ToString()
	if err != nil && !rueidis.IsRedisNil(err) {
		return err.Error()
	}
	return value
}

func mustBe(t *testing.T, want string, got any) {
	t.Helper()
	if reply, ok := got.(rueidis.RedisResult); ok {
		message, err := reply.ToMessage()
		if err != nil {
			t.Errorf("got %v, want %q", err, want)
			return
		}
		if n, err := message.AsInt64(); err == nil {
			got = fmt.Sprint(n)
		} else {
			got, _ = message.ToString()
		}
	}
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func mustFail(t *testing.T, want string, reply rueidis.RedisResult) {
	t.Helper()
	if err := reply.Error(); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

// line is the line of a text reply that begins with a word.
func line(reply rueidis.RedisResult, word string) string {
	text, _ := reply.ToString()
	for l := range strings.Lines(text) {
		if strings.HasPrefix(l, word) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}
