package command_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shiplane/limits/libs/command"
	"github.com/shiplane/limits/libs/serve"
)

// line is a command line with every group of flags.
type line struct {
	Run  runFlags `cmd:"" default:"withargs"`
	Else struct{} `cmd:""`
}

type runFlags struct {
	Name                   string `default:"x"`
	command.LogFlags       `embed:""`
	command.DrainFlags     `embed:""`
	command.TLSFlags       `embed:""`
	command.TelemetryFlags `embed:""`
}

// A flag comes from the command line or its variable; help of the usual command is
// shown for the program, and what is unknown names the way to help.
func TestParseReadsFlagsAndVariables(t *testing.T) {
	t.Setenv("SHIPLANE_NAME", "from-the-environment")
	var cmd line
	selected, err := command.Parse("program", "run", &cmd, []string{"--log-level", "debug"}, io.Discard, io.Discard)
	if err != nil || selected != "run" || cmd.Run.Name != "from-the-environment" || cmd.Run.LogLevel != "debug" {
		t.Errorf("got %q, %+v, %v", selected, cmd.Run, err)
	}
	var help bytes.Buffer
	if _, err := command.Parse("program", "run", &line{}, []string{"--help"}, &help, io.Discard); !errors.Is(err, command.ErrHelp) || !strings.Contains(help.String(), "--drain-delay") {
		t.Errorf("got %v and the help\n%s", err, &help)
	}
	if _, err := command.Parse("program", "run", &line{}, []string{"--nonsense"}, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "program --help") {
		t.Errorf("got %v", err)
	}
}

// Every fault is told at once, with its flag, its value and what is allowed.
func TestFaultsAreToldTogether(t *testing.T) {
	var faults command.Faults
	faults.Duration("bake", "2h", time.Second, time.Hour)
	faults.Int("pods", "many", 1, 9)
	faults.Share("margin", "NaN")
	faults.Address("listen", "localhost")
	faults.AddError("file", errors.New("is away"))
	faults.AddError("file", nil)
	(&command.LogFlags{LogFormat: "xml", LogLevel: "loud"}).Config(&faults)
	(&command.DrainFlags{DrainDelay: "-1s", DrainTimeout: "x"}).Config(&faults)
	(&command.TLSFlags{CertFlags: command.CertFlags{TLSCert: "a"}, ClientCA: "b"}).Check(&faults)
	(&command.TLSFlags{ClientCA: "b"}).Check(&faults)
	(&command.TelemetryFlags{OTLPEndpoint: "http://me:secret@host"}).Config(&faults)
	err := faults.Err()
	if err == nil {
		t.Fatal("no fault")
	}
	for _, want := range []string{
		"12 faults", `--bake "2h": want a duration of 1s to 1h`, `--pods "many": want a whole number of 1 to 9`, `--margin "NaN"`, `--listen "localhost"`,
		"--file: is away", `--log-format "xml"`, `--log-level "loud"`, `--drain-delay "-1s"`, `--drain-timeout "x"`, `--tls-cert "a"`, `--client-ca "b"`, `--otlp-endpoint "…@host"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("lacks %q in\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "secret") {
		t.Errorf("shows a secret: %v", err)
	}
	if err := (command.Faults{}).Err(); err != nil {
		t.Errorf("no faults: %v", err)
	}
}

// A log has the form and the level that its flags say.
func TestLogIsAsAsked(t *testing.T) {
	var faults command.Faults
	var out bytes.Buffer
	log := (&command.LogFlags{LogFormat: "json", LogLevel: "warn"}).Config(&faults).New(&out)
	log.Info("hidden")
	log.Warn("shown")
	if got := out.String(); len(faults) > 0 || strings.Contains(got, "hidden") || !strings.Contains(got, `"msg":"shown"`) {
		t.Errorf("got %s, %v", got, faults)
	}
}

// Without a certificate a service is served without TLS, and a file that holds
// none is named.
func TestTLSNeedsItsFiles(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	process := serve.New(serve.Config{Logger: log})
	defer process.Close()
	if config, err := (&command.TLSFlags{}).Open(process, log); config != nil || err != nil {
		t.Errorf("got %v, %v", config, err)
	}
	if _, err := (&command.TLSFlags{CertFlags: command.CertFlags{TLSCert: "nowhere", TLSKey: "nowhere"}}).Open(process, log); err == nil || !strings.Contains(err.Error(), "--tls-cert: ") {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := command.CertPool(file); err == nil || !strings.Contains(err.Error(), "no PEM certificate in "+file) {
		t.Errorf("got %v", err)
	}
}
