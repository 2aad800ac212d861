// Runs the official middleware around agents that answer with given events; prints their inputs and their events.
import {readFileSync} from 'node:fs';
import {A2UIMiddleware} from '@ag-ui/a2ui-middleware';
import {AbstractAgent} from '@ag-ui/client';
import {from} from 'rxjs';

class Scripted extends AbstractAgent {
  constructor(events, seen) {
    super();
    Object.assign(this, {events, seen});
  }

  run(received) {
    this.seen.input = received;
    return from(this.events);
  }
}

const run = ({config, input, events}) => new Promise((resolve, reject) => {
  const seen = {events: []};
  new A2UIMiddleware(config).run(input, new Scripted(events, seen)).subscribe({
    next: event => seen.events.push(event),
    error: reject,
    complete: () => resolve(seen),
  });
});

const scripts = JSON.parse(readFileSync(process.argv[2], 'utf8'));
console.log(JSON.stringify(await Promise.all(scripts.map(run))));
