package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// deployment returns the one of that name, nil for none.
func (c *cluster) deployment(name string) *appsv1.Deployment {
	for _, d := range c.deployments {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// config returns the data of a ConfigMap by its name as it was built, nil for none.
func (c *cluster) config(name string) map[string]string {
	for _, m := range c.configs {
		if m.Name == name {
			return m.Data
		}
	}
	return nil
}

// environment returns the environment of a Deployment's container, by ConfigMaps and
// by itself; what the downward API gives is the path of the field.
func (c *cluster) environment(d *appsv1.Deployment) map[string]string {
	all := map[string]string{}
	for _, from := range container(d).EnvFrom {
		if from.ConfigMapRef != nil {
			maps.Copy(all, c.config(from.ConfigMapRef.Name))
		}
	}
	for _, v := range container(d).Env {
		all[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil {
			all[v.Name] = v.ValueFrom.FieldRef.FieldPath
		}
	}
	return all
}

func container(d *appsv1.Deployment) *corev1.Container { return &d.Spec.Template.Spec.Containers[0] }

// settings are a container's flags, from its environment and its arguments.
func (c *cluster) settings(d *appsv1.Deployment) map[string]string {
	all := map[string]string{}
	for name, value := range c.environment(d) {
		if flag, ours := strings.CutPrefix(name, "SHIPLANE_"); ours {
			all["--"+strings.ReplaceAll(strings.ToLower(flag), "_", "-")] = value
		}
	}
	for _, arg := range container(d).Args {
		flag, value, _ := strings.Cut(arg, "=")
		all[flag] = value
	}
	return all
}

// listens returns the ports that a container listens on, by its flags.
func (c *cluster) listens(d *appsv1.Deployment) (ports []int32, problem string) {
	for flag, value := range c.settings(d) {
		if flag != "--admin" && flag != "--listen" && flag != "--grpc-listen" {
			continue
		}
		var port int32
		if _, err := fmt.Sscanf(value, ":%d", &port); err != nil {
			problem = fmt.Sprintf("%s=%s: want :PORT, which other machines reach", flag, value)
		}
		ports = append(ports, port)
	}
	slices.Sort(ports)
	return ports, problem
}

// port returns the number of a container's port, by name or by number; 0 for none.
func port(d *appsv1.Deployment, of intstr.IntOrString) int32 {
	for _, p := range container(d).Ports {
		if of.Type == intstr.String && p.Name == of.StrVal || of.Type == intstr.Int && p.ContainerPort == of.IntVal {
			return p.ContainerPort
		}
	}
	return 0
}

// selected returns the Deployments whose pods a selector matches; a nil one matches none.
func (c *cluster) selected(by *metav1.LabelSelector) (found []*appsv1.Deployment) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil
	}
	for _, d := range c.deployments {
		if selector.Matches(labels.Set(d.Spec.Template.Labels)) {
			found = append(found, d)
		}
	}
	return found
}

// duration is that of a flag; 0 where it is none.
func duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0
	}
	return d
}

// scaler returns what scales a Deployment, nil for none.
func (c *cluster) scaler(deployment string) *autoscalingv2.HorizontalPodAutoscaler {
	for _, s := range c.scalers {
		if s.Spec.ScaleTargetRef.Name == deployment {
			return s
		}
	}
	return nil
}

// network returns the NetworkPolicy of that name, nil for none.
func (c *cluster) network(name string) *networkingv1.NetworkPolicy {
	for _, n := range c.networks {
		if n.Name == name {
			return n
		}
	}
	return nil
}
