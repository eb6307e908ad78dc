/** The page while there are no recordings: how to record maps, and where the tab searches for them. */

import {element} from '../dom/elements.js';

/** {element, update({logdir, problem})}: `problem`: why the list of recordings could not be read. */
export function createEmptyPage() {
  const place = element('p', {class: 'place'});
  const again = element('p', {class: 'again', role: 'status'}, 'checking again…');
  const command = (text) => element('pre', {}, element('code', {}, text));
  const box = element(
    'section',
    {class: 'help', hidden: true},
    element('h1', {}, 'No attention maps yet'),
    place,
    element('p', {}, 'Training records the maps of all heads and layers, from step 0 on:'),
    command('python train.py'),
    element('p', {}, 'To follow your own sentences throughout training:'),
    command(`python train.py attention.probes='["Emi prefers the apple over the orange."]'`),
    element('p', {}, 'To record the maps of generated text or a translation (use your own run folder):'),
    command('python generate.py run=runs/demo_enja prompt="Emi likes apples." attention=true'),
    again,
  );
  const update = ({logdir, problem}) => {
    if (problem) {
      box.hidden = false;
      place.replaceChildren(problem);
      return;
    }
    place.replaceChildren(
      ...(logdir
        ? [
            'No recordings found under ',
            element('code', {}, logdir),
            ', where each run keeps them in a folder named ',
            element('code', {}, 'attention'),
            '.',
          ]
        : [
            'TensorBoard was started without a log directory. Start it with one: ',
            element('code', {}, 'tensorboard --logdir runs'),
            ', or check the directories in ',
            element('code', {}, '--logdir_spec'),
            '.',
          ]),
    );
  };
  return {element: box, update};
}
