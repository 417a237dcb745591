package kubernetes

import (
	"bufio"
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/shiplane/limits/checker"
	"github.com/shiplane/limits/gateway"
	"github.com/shiplane/limits/rules"
)

// programs are the services' own command lines, by the name of their Deployment.
var programs = map[string]func(args []string, stdout, stderr io.Writer) int{
	"gateway": func(args []string, stdout, stderr io.Writer) int {
		return gateway.Main(args, bytes.NewReader(nil), stdout, stderr)
	},
	"checker": checker.Main,
	"rules":   rules.Main,
}

// programVariable has the test's binary be the program that it names.
const programVariable = "KUBERNETES_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if program := programs[os.Getenv(programVariable)]; program != nil {
		os.Exit(program(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Each container starts with the arguments, the environment and the files of its pod
// while nothing that it connects to is there, answers its probes, and ends cleanly on
// SIGTERM. With rules from the file a pod also becomes ready.
func TestContainersStartAsTheirPodsStartThem(t *testing.T) {
	for how, fromFile := range map[string]bool{"rules from the service": false, "rules from the file": true} {
		c := build(t, "us-east", fromFile)
		for _, d := range c.deployments {
			t.Run(how+"/"+d.Name, func(t *testing.T) {
				admin, wait := start(t, c, d)
				await(t, admin+container(d).LivenessProbe.HTTPGet.Path)
				if fromFile && d.Name != "rules" {
					await(t, admin+container(d).ReadinessProbe.HTTPGet.Path)
				}
				if err := wait(); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// A container whose configuration is wrong does not start: the test above can fail.
func TestWrongSettingsDoNotStart(t *testing.T) {
	c := build(t, "us-east", true)
	d := c.deployment("gateway")
	container(d).Args = append(container(d).Args, "--region-pods=0")
	cmd := command(t, c, d)
	text, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(text), "--region-pods") {
		t.Errorf("got %v and\n%s", err, text)
	}
}

// start runs a container and returns its admin address and what ends it.
func start(t *testing.T, c *cluster, d *appsv1.Deployment) (admin string, end func() error) {
	t.Helper()
	cmd := command(t, c, d)
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	var log strings.Builder
	lines := bufio.NewScanner(io.TeeReader(stderr, &log))
	for lines.Scan() {
		var line struct{ Msg, Admin string }
		if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
			drained := make(chan struct{})
			go func() { defer close(drained); _, _ = io.Copy(io.Discard, stderr) }()
			return "http://" + line.Admin, func() error {
				if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
					return err
				}
				<-drained
				return cmd.Wait()
			}
		}
	}
	t.Fatalf("it ended: %v\n%s", cmd.Wait(), &log)
	return "", nil
}

var (
	ports  = regexp.MustCompile(`=:\d+$`)
	remote = regexp.MustCompile(`(rediss?://|postgres://[^@]+@|https://)[^/]+`)
)

// command is a container's process: its volumes are folders, its ports free ones, and
// whatever it connects to is away.
func command(t *testing.T, c *cluster, d *appsv1.Deployment) *exec.Cmd {
	t.Helper()
	replace := volumes(t, c, d)
	local := func(text string) string { return remote.ReplaceAllString(replace.Replace(text), "${1}127.0.0.1:1") }
	args := []string{}
	for _, arg := range container(d).Args {
		args = append(args, local(ports.ReplaceAllString(arg, "=127.0.0.1:0")))
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, append(args, "--drain-delay=0s")...)
	cmd.Env = []string{programVariable + "=" + d.Name}
	for name, value := range c.environment(d) {
		cmd.Env = append(cmd.Env, name+"="+local(value))
	}
	return cmd
}

// volumes writes those of a pod, and returns what turns their paths into real ones.
func volumes(t *testing.T, c *cluster, d *appsv1.Deployment) *strings.Replacer {
	t.Helper()
	content := secretFiles(t)
	var paths []string
	for _, mount := range container(d).VolumeMounts {
		dir := t.TempDir()
		paths = append(paths, mount.MountPath, dir)
		for _, v := range d.Spec.Template.Spec.Volumes {
			files := map[string]string{}
			switch {
			case v.Name != mount.Name:
			case v.ConfigMap != nil:
				files = c.config(v.ConfigMap.Name)
			case v.Secret != nil:
				for _, name := range secrets[v.Secret.SecretName] {
					files[name] = content[name]
				}
			}
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o440); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	return strings.NewReplacer(paths...)
}

// secretFiles are what the files of secrets may hold.
func secretFiles(t *testing.T) map[string]string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{"rules"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate}))
	token := strings.Repeat("t", 32)
	return map[string]string{
		"tls.crt": chain, "ca.pem": chain, "tls.key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
		"password": "secret\n", "tokens": token + "\n", "pod-tokens": token + "p\n", "token": token, "admin": token, "pod": token,
		"keys.yaml": "- {hash: 'sha256:" + strings.Repeat("ab", 32) + "', account: acct_1, plan: free}\n",
	}
}

// await asks until the answer is 200.
func await(t *testing.T, url string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := http.Get(url)
		if err == nil {
			text, _ := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %s %s", url, answer.Status, text)
			}
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}
