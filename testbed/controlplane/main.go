// One program that holds a whole Kubernetes control plane for tests: etcd, the API server,
// the controller manager and the scheduler, and kubectl to talk to them. The first argument
// says which of them to be, so one link serves all five.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
)

var commands = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllerManager,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kubectl":                 kubectl.NewDefaultKubectlCommand,
}

// controllerManager adds the one timer of a failover that upstream has as a variable for tests
// and not as a flag: how long a volume stays with a node that does not say it is unmounted.
func controllerManager() *cobra.Command {
	command := controllermanager.NewControllerManagerCommand()
	wait := &attachdetach.DefaultTimerConfig.ReconcilerMaxWaitForUnmountDuration
	command.Flags().DurationVar(wait, "testbed-max-wait-for-unmount", *wait,
		"How long to wait for a volume to be unmounted before it is detached from a node that is not ready.")
	return command
}

// part answers which program to be: the name we were called by (a link), or the first argument.
func part() string {
	name := filepath.Base(os.Args[0])
	if _, known := commands[name]; known || name == "etcd" {
		return name
	}
	if len(os.Args) < 2 {
		return ""
	}
	os.Args = os.Args[1:]
	return os.Args[0]
}

func main() {
	name := part()
	if name == "etcd" {
		etcdmain.Main(os.Args)
		return
	}
	command, known := commands[name]
	if !known {
		fmt.Fprintln(os.Stderr, "usage: controlplane etcd|kube-apiserver|kube-controller-manager|kube-scheduler|kubectl [flags]")
		os.Exit(2)
	}
	os.Exit(cli.Run(command()))
}
