package kubernetes

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// All that a region applies keeps to the policies.
func TestRegionsKeepToThePolicies(t *testing.T) {
	known := knownFlags(t)
	forEach(t, func(t *testing.T, _ string, c *cluster) {
		for _, fault := range c.faults(known) {
			t.Error(fault)
		}
	})
}

// faults tells what is wrong. known are each program's flags and variables.
func (c *cluster) faults(known map[string][]string) (found []string) {
	for _, d := range c.deployments {
		fault := func(format string, args ...any) {
			found = append(found, d.Name+": "+fmt.Sprintf(format, args...))
		}
		if n := len(d.Spec.Template.Spec.Containers); n != 1 {
			fault("it has %d containers, want one", n)
			continue
		}
		confinement(d, fault)
		resources(d, fault)
		probes(d, fault)
		c.references(d, fault)
		c.flags(d, known[d.Name], fault)
		c.ending(d, fault)
		c.standing(d, fault)
	}
	return slices.Concat(found, c.serviceFaults(), c.networkFaults(), c.scalerFaults())
}

type faultFunc func(format string, args ...any)

// confinement: nobody is root, nothing is written but where a volume is.
func confinement(d *appsv1.Deployment, fault faultFunc) {
	pod := d.Spec.Template.Spec
	security, of := pod.SecurityContext, container(d).SecurityContext
	if security == nil || of == nil {
		fault("it has no securityContext")
		return
	}
	for what, holds := range map[string]bool{
		"runAsNonRoot":                 is(security.RunAsNonRoot, true),
		"runAsUser":                    security.RunAsUser != nil && *security.RunAsUser > 0,
		"seccompProfile":               security.SeccompProfile != nil && security.SeccompProfile.Type == corev1.SeccompProfileTypeRuntimeDefault,
		"allowPrivilegeEscalation":     is(of.AllowPrivilegeEscalation, false),
		"readOnlyRootFilesystem":       is(of.ReadOnlyRootFilesystem, true),
		"capabilities":                 of.Capabilities != nil && slices.Equal(of.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(of.Capabilities.Add) == 0,
		"automountServiceAccountToken": is(pod.AutomountServiceAccountToken, false),
		"enableServiceLinks":           is(pod.EnableServiceLinks, false),
	} {
		if !holds {
			fault("%s is not as it must be", what)
		}
	}
	if _, tag, tagged := strings.Cut(container(d).Image, ":"); !tagged || tag == "latest" {
		fault("image %q: want a tag, not latest", container(d).Image)
	}
}

func is(flag *bool, want bool) bool { return flag != nil && *flag == want }

// resources: Go's collector knows the memory's limit, and its scheduler the processors'.
func resources(d *appsv1.Deployment, fault faultFunc) {
	limits, requests := container(d).Resources.Limits, container(d).Resources.Requests
	memory, cpu := limits.Memory().Value(), limits.Cpu().MilliValue()
	if requests.Memory().IsZero() || requests.Cpu().IsZero() {
		fault("it requests no processor or no memory")
	}
	if cpu < 2000 || cpu%1000 != 0 {
		fault("limit of %d/1000 processors: want whole ones, 2 at least", cpu)
	}
	mebibytes := 0
	for _, v := range container(d).Env {
		if v.Name == "GOMEMLIMIT" {
			mebibytes, _ = strconv.Atoi(strings.TrimSuffix(v.Value, "MiB"))
		}
	}
	if share := float64(mebibytes<<20) / float64(memory); !(share >= 0.8 && share <= 0.9) {
		fault("GOMEMLIMIT of %d MiB is not 80 to 90 %% of the limit of %d bytes", mebibytes, memory)
	}
}

// probes ask the admin port, which is the one that Prometheus reads.
func probes(d *appsv1.Deployment, fault faultFunc) {
	admin := port(d, intstr.FromString("admin"))
	for path, probe := range map[string]*corev1.Probe{"/healthz": container(d).LivenessProbe, "/readyz": container(d).ReadinessProbe} {
		if probe == nil || probe.HTTPGet == nil {
			fault("nothing asks %s", path)
		} else if got := port(d, probe.HTTPGet.Port); probe.HTTPGet.Path != path || got == 0 || got != admin {
			fault("a probe asks %s at port %d, want %s at %d", probe.HTTPGet.Path, got, path, admin)
		}
	}
	notes := d.Spec.Template.Annotations
	if notes["prometheus.io/scrape"] != "true" || notes["prometheus.io/path"] != "/metrics" || notes["prometheus.io/port"] != fmt.Sprint(admin) {
		fault("annotations for Prometheus: %v, want those of port %d", notes, admin)
	}
}

// secrets are those that must be there beforehand, with their files (README.md).
var secrets = map[string][]string{
	"store":              {"password"},
	"api-keys":           {"keys.yaml"},
	"checker-tokens":     {"tokens", "pod-tokens"},
	"rules-client":       {"token", "ca.pem"},
	"rules-tls":          {"tls.crt", "tls.key"},
	"rules-first-tokens": {"admin", "pod"},
	"rules-database":     {"password", "ca.pem"},
}

// references: every ConfigMap, volume and account is there, every file that a flag
// names is in a volume.
func (c *cluster) references(d *appsv1.Deployment, fault faultFunc) {
	pod := d.Spec.Template.Spec
	if !slices.ContainsFunc(c.accounts, func(a *corev1.ServiceAccount) bool { return a.Name == pod.ServiceAccountName }) {
		fault("there is no ServiceAccount %q", pod.ServiceAccountName)
	}
	for _, from := range container(d).EnvFrom {
		if from.ConfigMapRef == nil || c.config(from.ConfigMapRef.Name) == nil {
			fault("its environment comes from no ConfigMap that is here")
		}
	}
	files := map[string]bool{}
	for _, mount := range container(d).VolumeMounts {
		names, problem := c.volume(pod.Volumes, mount)
		if problem != "" {
			fault("volume %q: %s", mount.Name, problem)
		}
		for _, name := range names {
			files[mount.MountPath+"/"+name] = true
		}
	}
	for name, value := range c.settings(d) {
		if strings.HasPrefix(value, "/etc/") && !files[value] {
			fault("%s=%s: no volume holds it", name, value)
		}
	}
	if path := c.environment(d)["PGSSLROOTCERT"]; path != "" && !files[path] {
		fault("PGSSLROOTCERT=%s: no volume holds it", path)
	}
}

// volume returns the files of a mounted volume.
func (c *cluster) volume(volumes []corev1.Volume, mount corev1.VolumeMount) (files []string, problem string) {
	i := slices.IndexFunc(volumes, func(v corev1.Volume) bool { return v.Name == mount.Name })
	if i < 0 {
		return nil, "is not there"
	}
	v := volumes[i]
	switch {
	case v.Secret != nil && (secrets[v.Secret.SecretName] == nil || v.Secret.DefaultMode == nil || *v.Secret.DefaultMode != 0o440):
		return nil, fmt.Sprintf("secret %q is not one that the README names, or its mode is not 0440", v.Secret.SecretName)
	case v.Secret != nil:
		files = secrets[v.Secret.SecretName]
	case v.ConfigMap != nil && c.config(v.ConfigMap.Name) == nil:
		return nil, "ConfigMap " + v.ConfigMap.Name + " is not here"
	case v.ConfigMap != nil:
		for name := range c.config(v.ConfigMap.Name) {
			files = append(files, name)
		}
	case v.EmptyDir == nil || v.EmptyDir.SizeLimit == nil:
		return nil, "want a secret, a ConfigMap, or an emptyDir with a sizeLimit"
	}
	if mount.ReadOnly != (v.EmptyDir == nil) {
		return nil, fmt.Sprintf("readOnly is %v", mount.ReadOnly)
	}
	return files, ""
}

// flags: all are known to the program, and what pods need is given.
func (c *cluster) flags(d *appsv1.Deployment, known []string, fault faultFunc) {
	for _, arg := range container(d).Args {
		if flag, _, _ := strings.Cut(arg, "="); !slices.Contains(known, flag) {
			fault("it has no flag %s", flag)
		}
	}
	for name := range c.environment(d) {
		if strings.HasPrefix(name, "SHIPLANE_") && !slices.Contains(known, name) {
			fault("it reads no variable %s", name)
		}
	}
	ports, problem := c.listens(d)
	var named []int32
	for _, p := range container(d).Ports {
		named = append(named, p.ContainerPort)
	}
	if slices.Sort(named); problem != "" || !slices.Equal(ports, named) {
		fault("it listens on %v, its ports are %v %s", ports, named, problem)
	}
	if d.Name == "rules" {
		return
	}
	settings := c.settings(d)
	if settings["--pod-id"] != "metadata.name" {
		fault("SHIPLANE_POD_ID is not the pod's name")
	}
	state := settings["--state-dir"]
	if !slices.ContainsFunc(container(d).VolumeMounts, func(m corev1.VolumeMount) bool { return m.MountPath == state && !m.ReadOnly }) {
		fault("--state-dir %q is no volume that can be written", state)
	}
}

// ending: the drain's delay outlasts what readiness takes to be seen, and the pod is
// given the time that the drain can take.
func (c *cluster) ending(d *appsv1.Deployment, fault faultFunc) {
	const closing = 10 * time.Second // after the servers: leases go back, telemetry is pushed
	settings, seen := c.settings(d), time.Duration(0)
	if p := container(d).ReadinessProbe; p != nil {
		seen = time.Duration(p.PeriodSeconds*p.FailureThreshold) * time.Second
	}
	delay, timeout := duration(settings["--drain-delay"]), duration(settings["--drain-timeout"])
	if delay <= seen || timeout <= 0 {
		fault("it serves on for %v, then drains for %v: want more than the %v in which readiness is seen", delay, timeout, seen)
	}
	servers, _ := c.listens(d)
	need, grace := delay+time.Duration(len(servers))*timeout+closing, time.Duration(0)
	if s := d.Spec.Template.Spec.TerminationGracePeriodSeconds; s != nil {
		grace = time.Duration(*s) * time.Second
	}
	if grace < need {
		fault("it has %v to end, and can take %v", grace, need)
	}
}

// standing: a node, a zone or a rollout does not take all pods away.
func (c *cluster) standing(d *appsv1.Deployment, fault faultFunc) {
	spread := map[string]bool{}
	for _, s := range d.Spec.Template.Spec.TopologySpreadConstraints {
		spread[s.TopologyKey] = slices.Contains(c.selected(s.LabelSelector), d)
	}
	if !spread["topology.kubernetes.io/zone"] || !spread["kubernetes.io/hostname"] {
		fault("its pods are not spread over zones and nodes: %v", spread)
	}
	if got := c.selected(d.Spec.Selector); len(got) != 1 || got[0] != d {
		fault("its selector matches %d Deployments", len(got))
	}
	budgets := 0
	for _, b := range c.budgets {
		if got := c.selected(b.Spec.Selector); len(got) == 1 && got[0] == d && b.Spec.MaxUnavailable != nil {
			budgets++
		}
	}
	if budgets != 1 {
		fault("%d PodDisruptionBudgets select it alone, want 1", budgets)
	}
	rolling := d.Spec.Strategy.RollingUpdate
	if rolling == nil || rolling.MaxUnavailable == nil || rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxUnavailable.Type != intstr.Int {
		fault("a rollout takes pods away before others are there")
	}
	scaled := c.scaler(d.Name) != nil
	if r := d.Spec.Replicas; scaled == (r != nil) || r != nil && *r < 2 {
		fault("replicas: want 2 at least, or none where a HorizontalPodAutoscaler sets them")
	}
}

// serviceFaults: a Service leads to ports of pods that are here.
func (c *cluster) serviceFaults() (found []string) {
	for _, s := range c.services {
		if s.Spec.Type == corev1.ServiceTypeExternalName {
			continue
		}
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Annotations["service.beta.kubernetes.io/aws-load-balancer-scheme"] != "internal" {
			found = append(found, s.Name+": its load balancer is not internal")
		}
		to := c.selected(&metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		if len(to) != 1 {
			found = append(found, fmt.Sprintf("service %s leads to %d Deployments", s.Name, len(to)))
			continue
		}
		for _, p := range s.Spec.Ports {
			at := port(to[0], p.TargetPort)
			if at == 0 || p.Name == "admin" || at == port(to[0], intstr.FromString("admin")) {
				found = append(found, fmt.Sprintf("service %s: port %s is none of %s for callers", s.Name, p.TargetPort.String(), to[0].Name))
			} else if !c.letsIn(to[0], at) {
				found = append(found, fmt.Sprintf("service %s: no NetworkPolicy lets callers in at port %d", s.Name, at))
			}
		}
	}
	return found
}

// letsIn reports whether a policy of a Deployment's pods lets somebody in at a port.
func (c *cluster) letsIn(d *appsv1.Deployment, at int32) bool {
	return slices.ContainsFunc(c.networks, func(n *networkingv1.NetworkPolicy) bool {
		return slices.Contains(c.selected(&n.Spec.PodSelector), d) && slices.ContainsFunc(n.Spec.Ingress, func(in networkingv1.NetworkPolicyIngressRule) bool {
			return slices.ContainsFunc(in.Ports, func(p networkingv1.NetworkPolicyPort) bool { return p.Port != nil && port(d, *p.Port) == at })
		})
	})
}

// networkFaults: policies are about pods that are here, let in at ports that these
// have, name all that they open, and close everything else.
func (c *cluster) networkFaults() (found []string) {
	closed := false
	for _, n := range c.networks {
		fault := func(format string, args ...any) {
			found = append(found, "NetworkPolicy "+n.Name+": "+fmt.Sprintf(format, args...))
		}
		of := c.selected(&n.Spec.PodSelector)
		if len(of) == 0 {
			fault("it selects no pods")
		}
		closed = closed || len(of) == len(c.deployments) && len(n.Spec.PolicyTypes) == 2 && len(n.Spec.Ingress)+len(n.Spec.Egress) == 0
		for _, in := range n.Spec.Ingress {
			for _, p := range in.Ports {
				for _, d := range of {
					if p.Port == nil || port(d, *p.Port) == 0 {
						fault("%s has no port %v", d.Name, p.Port)
					}
				}
			}
			if len(in.Ports) == 0 {
				fault("it lets in at every port")
			}
		}
		for _, out := range n.Spec.Egress {
			if len(out.To) == 0 || len(out.Ports) == 0 {
				fault("it lets out to everywhere or at every port")
			}
		}
	}
	if !closed {
		found = append(found, "no NetworkPolicy closes all pods")
	}
	return found
}

// scalerFaults: what is scaled is here, and the limiter knows the least number of pods.
func (c *cluster) scalerFaults() (found []string) {
	for _, s := range c.scalers {
		d := c.deployment(s.Spec.ScaleTargetRef.Name)
		if d == nil || s.Spec.ScaleTargetRef.Kind != "Deployment" {
			found = append(found, "HorizontalPodAutoscaler "+s.Name+": there is no such target")
			continue
		}
		if least := c.settings(d)["--region-pods"]; s.Spec.MinReplicas == nil || fmt.Sprint(*s.Spec.MinReplicas) != least || *s.Spec.MinReplicas >= s.Spec.MaxReplicas {
			found = append(found, fmt.Sprintf("HorizontalPodAutoscaler %s: from %v to %d pods, SHIPLANE_REGION_PODS is %s", s.Name, s.Spec.MinReplicas, s.Spec.MaxReplicas, least))
		}
	}
	if c.scaler("gateway") == nil {
		found = append(found, "no HorizontalPodAutoscaler scales the gateway")
	}
	return found
}

// knownFlags asks each program for its flags and variables.
func knownFlags(t *testing.T) map[string][]string {
	t.Helper()
	known := map[string][]string{}
	for name, program := range programs {
		var help strings.Builder
		if code := program([]string{"--help"}, &help, &help); code != 0 {
			t.Fatalf("%s --help: exit code %d", name, code)
		}
		known[name] = regexp.MustCompile(`--[a-z0-9][a-z0-9-]*|SHIPLANE_[A-Z0-9_]+`).FindAllString(help.String(), -1)
	}
	return known
}
