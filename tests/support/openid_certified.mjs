// A certified OpenID provider on loopback: whoever names an account is signed in as it.
import { readFileSync } from 'node:fs';
import { Provider } from 'oidc-provider';

const [port, file] = process.argv.slice(2);
const { redirect, client, secret, accounts } = JSON.parse(readFileSync(file, 'utf8'));
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [{ client_id: client, client_secret: secret, redirect_uris: [redirect] }],
  claims: { email: ['email', 'email_verified'], profile: ['realm_access', 'groups'] },
  conformIdTokenClaims: false, // the claims are in the ID token
  findAccount: (_, id) =>
    id in accounts && { accountId: id, claims: () => ({ ...accounts[id], sub: accounts[id].sub ?? id }) },
});
provider.listen(Number(port), '127.0.0.1');
