package kubernetes

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// plant breaks a policy.
type plant func(c *cluster)

// Each policy is broken once, in the home region, and the fault is found.
func TestEachPlantedFaultIsFound(t *testing.T) {
	known := knownFlags(t)
	for _, planted := range []map[string]plant{plantedInContainers(), plantedInPods(), plantedAroundPods()} {
		for want, plant := range planted {
			t.Run(want, func(t *testing.T) {
				c := build(t, "us-east", false)
				plant(c)
				if got := strings.Join(c.faults(known), "\n"); !strings.Contains(got, want) {
					t.Errorf("got %q", got)
				}
			})
		}
	}
}

// plantedInContainers are faults of security, resources and probes, by what is said of each.
func plantedInContainers() map[string]plant {
	no, yes := false, true
	return map[string]plant{
		"runAsNonRoot":                 func(c *cluster) { pod(c).SecurityContext.RunAsNonRoot = nil },
		"runAsUser":                    func(c *cluster) { *pod(c).SecurityContext.RunAsUser = 0 },
		"seccompProfile":               func(c *cluster) { pod(c).SecurityContext.SeccompProfile.Type = corev1.SeccompProfileTypeUnconfined },
		"allowPrivilegeEscalation":     func(c *cluster) { of(c).SecurityContext.AllowPrivilegeEscalation = &yes },
		"readOnlyRootFilesystem":       func(c *cluster) { of(c).SecurityContext.ReadOnlyRootFilesystem = &no },
		"capabilities":                 func(c *cluster) { of(c).SecurityContext.Capabilities.Add = []corev1.Capability{"NET_RAW"} },
		"no securityContext":           func(c *cluster) { of(c).SecurityContext = nil },
		"automountServiceAccountToken": func(c *cluster) { pod(c).AutomountServiceAccountToken = nil },
		"enableServiceLinks":           func(c *cluster) { pod(c).EnableServiceLinks = &yes },
		"2 containers":                 func(c *cluster) { pod(c).Containers = append(pod(c).Containers, corev1.Container{}) },
		`image "x:latest"`:             func(c *cluster) { of(c).Image = "x:latest" },
		`image "x"`:                    func(c *cluster) { of(c).Image = "x" },
		"requests no processor":        func(c *cluster) { of(c).Resources.Requests = nil },
		"limit of 1500/1000":           func(c *cluster) { of(c).Resources.Limits["cpu"] = resource.MustParse("1500m") },
		"limit of 0/1000":              func(c *cluster) { delete(of(c).Resources.Limits, "cpu") },
		"GOMEMLIMIT of 870 MiB":        func(c *cluster) { of(c).Resources.Limits["memory"] = resource.MustParse("2Gi") },
		"GOMEMLIMIT of 0 MiB":          func(c *cluster) { of(c).Env = of(c).Env[:1] },
		"nothing asks /healthz":        func(c *cluster) { of(c).LivenessProbe = nil },
		"nothing asks /readyz":         func(c *cluster) { of(c).ReadinessProbe = nil },
		"asks /ready at":               func(c *cluster) { of(c).ReadinessProbe.HTTPGet.Path = "/ready" },
		"asks /healthz at port 0":      func(c *cluster) { of(c).LivenessProbe.HTTPGet.Port = intstr.FromString("metrics") },
		"annotations for Prometheus":   func(c *cluster) { c.deployment("gateway").Spec.Template.Annotations["prometheus.io/port"] = "8080" },
	}
}

// plantedInPods are faults of references, flags, variables and the end of a pod.
func plantedInPods() map[string]plant {
	return map[string]plant{
		"no ServiceAccount":          func(c *cluster) { pod(c).ServiceAccountName = "default" },
		"comes from no ConfigMap":    func(c *cluster) { of(c).EnvFrom[0].ConfigMapRef.Name = "limiter" }, // without its hash
		"is not one that the README": func(c *cluster) { volumeOf(c, "keys").Secret.SecretName = "redis" },
		"its mode is not 0440":       func(c *cluster) { volumeOf(c, "keys").Secret.DefaultMode = nil },
		"is not here": func(c *cluster) {
			*volumeOf(c, "keys") = corev1.Volume{Name: "keys", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
		},
		"emptyDir with a sizeLimit":   func(c *cluster) { volumeOf(c, "state").EmptyDir.SizeLimit = nil },
		"readOnly is false":           func(c *cluster) { of(c).VolumeMounts[0].ReadOnly = false },
		`volume "gone": is not there`: func(c *cluster) { of(c).VolumeMounts[0].Name = "gone" },
		"no volume holds it":          func(c *cluster) { of(c).Args = append(of(c).Args, "--denied-body=/etc/shiplane/body.html") },
		"PGSSLROOTCERT=/x":            func(c *cluster) { container(c.deployment("rules")).Env[0].Value = "/x" },
		"no flag --drain":             func(c *cluster) { of(c).Args = append(of(c).Args, "--drain=1s") },
		"no variable SHIPLANE_STOER":  func(c *cluster) { of(c).Env = append(of(c).Env, corev1.EnvVar{Name: "SHIPLANE_STOER"}) },
		"which other machines reach":  func(c *cluster) { of(c).Args[0] = "--listen=127.0.0.1:8080" },
		"it listens on [8081 9080]":   func(c *cluster) { of(c).Args[0] = "--listen=:8081" },
		"SHIPLANE_POD_ID":             func(c *cluster) { of(c).Env = of(c).Env[1:] },
		"no volume that can be written": func(c *cluster) {
			of(c).Env = append(of(c).Env, corev1.EnvVar{Name: "SHIPLANE_STATE_DIR", Value: "/tmp"})
		},
		"it serves on for 2s": func(c *cluster) { of(c).Args[2] = "--drain-delay=2s" },
		"it has 1m0s to end":  func(c *cluster) { *pod(c).TerminationGracePeriodSeconds = 60 },
		"it has 0s to end":    func(c *cluster) { pod(c).TerminationGracePeriodSeconds = nil },
	}
}

// plantedAroundPods are faults of what selects, leads to, guards and scales pods.
func plantedAroundPods() map[string]plant {
	return map[string]plant{
		"not spread": func(c *cluster) {
			pod(c).TopologySpreadConstraints[0].LabelSelector.MatchLabels = map[string]string{"app": "x"}
		},
		"its selector matches 3": func(c *cluster) { c.deployment("gateway").Spec.Selector.MatchLabels = nil },
		"0 PodDisruptionBudgets": func(c *cluster) { c.budgets[0].Spec.Selector.MatchLabels = map[string]string{"app": "x"} },
		"a rollout takes pods away": func(c *cluster) {
			*c.deployment("gateway").Spec.Strategy.RollingUpdate.MaxUnavailable = intstr.FromInt32(1)
		},
		"replicas: want":                func(c *cluster) { c.deployment("gateway").Spec.Replicas = new(int32) },
		"checker: replicas: want":       func(c *cluster) { *c.deployment("checker").Spec.Replicas = 1 },
		"is not internal":               func(c *cluster) { serviceOf(c, "rules-regional").Annotations = nil },
		"leads to 0 Deployments":        func(c *cluster) { serviceOf(c, "gateway").Spec.Selector = map[string]string{"app": "x"} },
		"port 9080 is none":             func(c *cluster) { serviceOf(c, "gateway").Spec.Ports[0].TargetPort = intstr.FromInt32(9080) },
		"port web is none":              func(c *cluster) { serviceOf(c, "gateway").Spec.Ports[0].TargetPort = intstr.FromString("web") },
		"no NetworkPolicy lets callers": func(c *cluster) { c.network("gateway").Spec.Ingress = nil },
		"it selects no pods":            func(c *cluster) { c.network("checker").Spec.PodSelector.MatchLabels = map[string]string{"app": "x"} },
		"gateway has no port":           func(c *cluster) { *c.network("gateway").Spec.Ingress[0].Ports[0].Port = intstr.FromInt32(80) },
		"it lets in at every port":      func(c *cluster) { c.network("gateway").Spec.Ingress[0].Ports = nil },
		"lets out to everywhere":        func(c *cluster) { c.network("store").Spec.Egress[0].To = nil },
		"no NetworkPolicy closes":       func(c *cluster) { c.network("closed").Spec.PolicyTypes = nil },
		"no such target":                func(c *cluster) { c.scalers[0].Spec.ScaleTargetRef.Name = "gate" },
		"SHIPLANE_REGION_PODS is 50":    func(c *cluster) { *c.scalers[0].Spec.MinReplicas = 3 },
		"scales the gateway":            func(c *cluster) { c.scalers = nil },
	}
}

func of(c *cluster) *corev1.Container { return container(c.deployment("gateway")) }

func pod(c *cluster) *corev1.PodSpec { return &c.deployment("gateway").Spec.Template.Spec }

func volumeOf(c *cluster, name string) *corev1.Volume {
	volumes := c.deployment("gateway").Spec.Template.Spec.Volumes
	for i := range volumes {
		if volumes[i].Name == name {
			return &volumes[i]
		}
	}
	return nil
}

func serviceOf(c *cluster, name string) *corev1.Service {
	for _, s := range c.services {
		if s.Name == name {
			return s
		}
	}
	return nil
}
