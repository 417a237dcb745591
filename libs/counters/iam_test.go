package counters

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/command"
)

// awsEnvironment is one that has credentials, and nothing of the machine's.
func awsEnvironment(t *testing.T) {
	t.Helper()
	nowhere := filepath.Join(t.TempDir(), "nothing")
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret-of-the-example", "AWS_SESSION_TOKEN": "session",
		"AWS_REGION": "eu-west-1", "AWS_CONFIG_FILE": nowhere, "AWS_SHARED_CREDENTIALS_FILE": nowhere, "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "",
	} {
		t.Setenv(name, value)
	}
}

// A token is the signed call that AWS documents, made anew for each connection, and
// tells no secret.
func TestTokenIsTheSignedCallToConnect(t *testing.T) {
	awsEnvironment(t)
	u, err := newIAMUser(t.Context(), "limits-eu-west", "limiter")
	if err != nil {
		t.Fatal(err)
	}
	u.now = func() time.Time { return time.Date(2026, 12, 2, 10, 0, 0, 0, time.UTC) }
	token, err := u.password()
	if err != nil {
		t.Fatal(err)
	}
	address, err := url.Parse("http://" + token)
	if err != nil || address.Host != "limits-eu-west" || address.Path != "/" {
		t.Fatalf("token %q: want the address of limits-eu-west without its scheme (%v)", token, err)
	}
	got := address.Query()
	for name, want := range map[string]string{
		"Action": "connect", "User": "limiter", "X-Amz-Expires": "900", "X-Amz-Algorithm": "AWS4-HMAC-SHA256", "X-Amz-Date": "20261202T100000Z",
		"X-Amz-Credential": "AKIDEXAMPLE/20261202/eu-west-1/elasticache/aws4_request", "X-Amz-Security-Token": "session", "X-Amz-SignedHeaders": "host",
	} {
		if got.Get(name) != want {
			t.Errorf("%s is %q, want %q", name, got.Get(name), want)
		}
	}
	if len(got.Get("X-Amz-Signature")) != 64 || strings.Contains(token, "secret-of-the-example") {
		t.Errorf("token %q: want a signature and no secret", token)
	}
	u.now = func() time.Time { return time.Date(2026, 12, 2, 10, 20, 0, 0, time.UTC) }
	if later, err := u.password(); err != nil || later == token {
		t.Errorf("twenty minutes later: %q, %v: want another", later, err)
	}
}

// Without credentials a connection's password is an error that says so; without a
// region the pod does not start.
func TestTokensNeedCredentialsAndARegion(t *testing.T) {
	awsEnvironment(t)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	u, err := newIAMUser(t.Context(), "limits-eu-west", "limiter")
	if err != nil {
		t.Fatal(err)
	}
	if token, err := u.password(); err == nil || !strings.Contains(err.Error(), "AWS credentials") {
		t.Errorf("without credentials: %q, %v", token, err)
	}
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_DEFAULT_REGION", "")
	if _, err := newIAMUser(t.Context(), "limits-eu-west", "limiter"); err == nil || !strings.Contains(err.Error(), "AWS_REGION") {
		t.Errorf("without a region: %v", err)
	}
}

// What signing in by AWS lacks is said by flag.
func TestFlagsOfIAM(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags StoreFlags
		want  string // "": nothing is wrong
	}{
		{"all", StoreFlags{Store: "rediss://a:6379", StoreUser: "limiter", StoreIAM: "limits-eu-west"}, ""},
		{"a cluster's address", StoreFlags{Store: "rediss://a:6379", StoreUser: "limiter", StoreIAM: "limits.cache.amazonaws.com:6379"}, "want a cluster's name"},
		{"a password too", StoreFlags{Store: "rediss://a:6379", StoreUser: "limiter", StoreIAM: "limits", StoreSecret: "f"}, "goes without --store-password-file"},
		{"no user", StoreFlags{Store: "rediss://a:6379", StoreIAM: "limits"}, "needs --store-user"},
		{"no TLS", StoreFlags{Store: "redis://a:6379", StoreUser: "limiter", StoreIAM: "limits"}, "rediss://"},
		{"no store", StoreFlags{Store: "memory", StoreUser: "limiter", StoreIAM: "limits"}, "rediss://"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var faults command.Faults
			c.flags.StoreTimeout, c.flags.Region, c.flags.RegionPods, c.flags.PodID = "5ms", "local", "3", "pod-1"
			c.flags.Config(&faults)
			err := faults.Err()
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%v: want %q", err, c.want)
			}
		})
	}
}
