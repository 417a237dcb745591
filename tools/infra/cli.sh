#!/bin/sh
# Prints the path of a Terraform or OpenTofu that is new enough: one that is
# installed, or OpenTofu, built once at $1.
set -eu
tofu=$1
least=1.11

for name in ${TERRAFORM:-terraform tofu}; do
	cli=$(command -v "$name") || continue
	version=$(TF_CLI_CONFIG_FILE=/dev/null CHECKPOINT_DISABLE=1 "$cli" version | sed -n '1s/.* v//p')
	if [ "$(printf '%s\n' "$least" "$version" | sort -V | head -n 1)" = "$least" ]; then
		echo "$cli"
		exit
	fi
done
if [ -n "${TERRAFORM:-}" ]; then
	echo "TERRAFORM is \"$TERRAFORM\": want a Terraform or OpenTofu of $least or later" >&2
	exit 1
fi

if [ ! -x "$tofu" ]; then
	echo "building OpenTofu, once: 7 minutes of processor time" >&2
	work=$tofu.d
	rm -rf "$work"
	mkdir -p "$work"
	# OpenTofu replaces hcl by a fork, which a module that depends on it has to say again.
	cat >"$work/go.mod" <<-END
		module example.invalid/tofu

		go 1.26

		tool github.com/opentofu/opentofu/cmd/tofu

		replace github.com/hashicorp/hcl/v2 v2.20.1 => github.com/opentofu/hcl/v2 v2.20.2-0.20251021132045-587d123c2828
	END
	GOFLAGS='' go -C "$work" get github.com/opentofu/opentofu/cmd/tofu@v1.12.6 >&2
	GOFLAGS='' go -C "$work" build -trimpath -o "$work/tofu" github.com/opentofu/opentofu/cmd/tofu >&2
	mv "$work/tofu" "$tofu"
	rm -rf "$work"
fi
echo "$tofu"
