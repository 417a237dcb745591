package counters

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/config"
)

const (
	// tokenLife is what ElastiCache allows at most: a token opens connections for so
	// long, and these stay open for 12 hours.
	tokenLife = "900" // seconds
	// iamTimeout bounds the time in which AWS hands credentials out.
	iamTimeout = 5 * time.Second
)

// iamUser is a user of an ElastiCache that signs in by AWS credentials: its password
// is the address of the call that it would make, signed, as AWS documents it under
// "Authenticating with IAM". Safe for concurrent use.
type iamUser struct {
	cluster, name, region string
	credentials           aws.CredentialsProvider // kept by it until they expire
	signer                *v4.Signer
	now                   func() time.Time
}

// newIAMUser finds credentials and region where the AWS SDK looks for them: the
// environment, its files, the service account of a pod, the machine's role. It asks
// for none yet.
func newIAMUser(ctx context.Context, cluster, name string) (*iamUser, error) {
	found, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, err
	}
	if found.Region == "" {
		return nil, errors.New("no AWS region is known: set AWS_REGION")
	}
	return &iamUser{cluster: cluster, name: name, region: found.Region, credentials: found.Credentials, signer: v4.NewSigner(), now: time.Now}, nil
}

// password makes a token for one connection. The error says why there are no
// credentials.
func (u *iamUser) password() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), iamTimeout)
	defer cancel()
	credentials, err := u.credentials.Retrieve(ctx)
	if err != nil {
		return "", fmt.Errorf("AWS credentials: %w", err)
	}
	address := url.URL{Scheme: "http", Host: u.cluster, Path: "/", RawQuery: url.Values{
		"Action": {"connect"}, "User": {u.name}, "X-Amz-Expires": {tokenLife},
	}.Encode()}
	call, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return "", err
	}
	nothing := sha256.Sum256(nil)
	signed, _, err := u.signer.PresignHTTP(ctx, credentials, call, hex.EncodeToString(nothing[:]), "elasticache", u.region, u.now())
	if err != nil {
		return "", fmt.Errorf("sign in to %s: %w", u.cluster, err)
	}
	return strings.TrimPrefix(signed, "http://"), nil
}
